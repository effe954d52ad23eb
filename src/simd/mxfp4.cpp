// FP8 rows to MXFP4 rows by table.
#include "simd/mxfp4.hpp"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/mxfp4.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace engram::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kGroup = 32;

// What a target's kernel works with; the scalar target has a plain one.
#if HWY_TARGET == HWY_SCALAR
struct Group {
  explicit Group(const std::uint8_t* at) : codes(at) {}
  const std::uint8_t* codes;

  std::uint8_t largest() const {
    std::uint8_t found = 0;
    for (std::size_t i = 0; i < kGroup; ++i) found = std::max<std::uint8_t>(found, codes[i] & 0x7F);
    return found;
  }
  static std::size_t index(std::uint8_t code, std::uint8_t bias) {
    const int at = (code & 0x7F) + 40 - bias;
    return static_cast<std::size_t>(std::max(at, 0));
  }
  bool larger_wins(const Mxfp4Tables::Class& table) const {
    int sum = 0;
    for (std::size_t i = 0; i < kGroup; ++i) {
      sum += table.gain[index(codes[i], table.bias)] - 128;
    }
    return sum < 0;
  }
  void store(const Mxfp4Tables::Class& table, bool larger, bool negative_zero,
             std::uint8_t* out) const {
    const auto nibble = [&](std::size_t i) {
      const bool minus = (codes[i] & 0x80) != 0 || (negative_zero && (codes[i] & 0x7F) == 0);
      return table.nibbles[larger ? 1 : 0][index(codes[i], table.bias)] | (minus ? 8 : 0);
    };
    for (std::size_t i = 0; i < kGroup / 2; ++i) {
      out[i] = static_cast<std::uint8_t>(nibble(2 * i) | nibble(2 * i + 1) << 4);
    }
  }
};
#else
using Bytes = hn::CappedTag<std::uint8_t, kGroup>;
using ByteVec = hn::Vec<Bytes>;

class Group {
 public:
  HWY_INLINE explicit Group(const std::uint8_t* HWY_RESTRICT codes) : codes_(codes) {}

  HWY_INLINE std::uint8_t largest() const {
    const Bytes d;
    auto found = hn::Zero(d);
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      found = hn::Max(found, hn::And(hn::LoadU(d, codes_ + i), hn::Set(d, 0x7F)));
    }
    // Targets reduce 16-bit lanes: the larger byte of each pair, then the largest of those.
    const hn::RepartitionToWide<Bytes> pairs;
    const auto pair = hn::BitCast(pairs, found);
    const auto larger = hn::Max(hn::And(pair, hn::Set(pairs, 0xFF)), hn::ShiftRight<8>(pair));
    return static_cast<std::uint8_t>(hn::GetLane(hn::MaxOfLanes(pairs, larger)));
  }

  HWY_INLINE bool larger_wins(const Mxfp4Tables::Class& table) const {
    const Bytes d;
    const hn::Repartition<std::uint64_t, Bytes> sums;
    auto sum = hn::Zero(sums);
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      sum = hn::Add(sum, hn::SumsOf8(look_up(table.gain, window(i, table.bias))));
    }
    return hn::GetLane(hn::SumOfLanes(sums, sum)) < 128 * kGroup;
  }

  HWY_INLINE void store(const Mxfp4Tables::Class& table, bool larger, bool negative_zero,
                        std::uint8_t* HWY_RESTRICT out) const {
    const Bytes d;
    const hn::RepartitionToWide<Bytes> pairs;
    const hn::Rebind<std::uint8_t, decltype(pairs)> narrow;
    for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
      const auto code = hn::LoadU(d, codes_ + i);
      auto sign = hn::And(code, hn::Set(d, 0x80));
      if (negative_zero) {
        const auto zero = hn::Eq(hn::And(code, hn::Set(d, 0x7F)), hn::Zero(d));
        sign = hn::Or(sign, hn::And(hn::VecFromMask(d, zero), hn::Set(d, 0x80)));
      }
      const auto nibble = look_up(table.nibbles[larger ? 1 : 0], window(i, table.bias));
      // In 16-bit lanes the even column is the low byte: gather both nibbles into it.
      const auto nibbles =
          hn::Or(hn::BitCast(pairs, nibble), hn::ShiftRight<4>(hn::BitCast(pairs, sign)));
      const auto packed = hn::Or(nibbles, hn::ShiftRight<4>(nibbles));
      hn::StoreU(hn::TruncateTo(narrow, packed), narrow, out + i / 2);
    }
  }

 private:
  // code - top + 47, not below 0.
  HWY_INLINE ByteVec window(std::size_t i, std::uint8_t bias) const {
    const Bytes d;
    const auto magnitude = hn::And(hn::LoadU(d, codes_ + i), hn::Set(d, 0x7F));
    return hn::SaturatedSub(hn::Add(magnitude, hn::Set(d, 40)), hn::Set(d, bias));
  }

  // table[index], index < 48: sixteen entries at a time; an index outside them gets its top bit
  // set, which looks up zero.
  static HWY_INLINE ByteVec look_up(const std::array<std::uint8_t, Mxfp4Tables::kWindow>& table,
                                    ByteVec index) {
    const Bytes d;
    auto found = hn::Zero(d);
    for (std::size_t part = 0; part < Mxfp4Tables::kWindow / 16; ++part) {
      const auto entries = hn::LoadDup128(d, table.data() + 16 * part);
      const auto inside = hn::SaturatedAdd(
          hn::Xor(index, hn::Set(d, static_cast<std::uint8_t>(16 * part))), hn::Set(d, 0x70));
      found = hn::Or(found, hn::TableLookupBytesOr0(entries, inside));
    }
    return found;
  }

  const std::uint8_t* HWY_RESTRICT codes_;
};
#endif

bool row_from_fp8(const std::uint8_t* HWY_RESTRICT fp8, std::size_t columns,
                  const Mxfp4Tables& tables, std::uint8_t* HWY_RESTRICT mxfp4) {
  const std::uint8_t* scales = fp8 + columns;
  std::uint8_t* out_scales = mxfp4 + columns / 2;
  for (std::size_t i = 0; i < columns / kGroup; ++i) {
    const Group group(fp8 + i * kGroup);
    const std::uint8_t largest = group.largest();
    std::uint8_t* out = mxfp4 + i * kGroup / 2;
    if (largest == 0x7F || scales[i] == 0xFF) return false;
    const std::uint8_t index = tables.class_of[largest];
    if (index == Mxfp4Tables::kNoClass) {
      group.store(tables.classes[0], false, tables.negative_zero, out);
      out_scales[i] = tables.negative_zero ? 0 : 127;
      continue;
    }
    const Mxfp4Tables::Class& table = tables.classes[index];
    const bool larger = tables.search ? group.larger_wins(table) : tables.shift_of[largest] != 0;
    // The class is floor(log2) + 9, and the smaller exponent floor(log2) - 2.
    const int scale = scales[i] + index - 9 - 2 + (larger ? 1 : 0);
    if (scale < 0 || scale > 254) return false;
    group.store(table, larger, tables.negative_zero, out);
    out_scales[i] = static_cast<std::uint8_t>(scale);
  }
  return true;
}

}  // namespace engram::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace engram::simd {

HWY_EXPORT(row_from_fp8);

bool mxfp4_from_fp8(const std::uint8_t* fp8, std::size_t columns, const Mxfp4Tables& tables,
                    std::uint8_t* mxfp4) {
  return HWY_DYNAMIC_DISPATCH(row_from_fp8)(fp8, columns, tables, mxfp4);
}

}  // namespace engram::simd
#endif
