// FP8 rows to MXFP4 rows by table.
#include "simd/mxfp4.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/mxfp4.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace engram::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kGroup = 32;

HWY_INLINE std::uint8_t largest_magnitude(const std::uint8_t* HWY_RESTRICT codes) {
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < kGroup; ++i) {
    largest = std::max<std::uint8_t>(largest, codes[i] & 0x7F);
  }
  return largest;
}

// Whether the larger exponent has the smaller squared error. The sums are exact, so their order
// does not matter.
HWY_INLINE bool larger_wins(const std::uint8_t* HWY_RESTRICT codes,
                            const std::array<double, 128>& gain) {
  std::array<double, 4> sums{};
  for (std::size_t i = 0; i < kGroup; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += gain[codes[i + lane] & 0x7F];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]) < 0;
}

// 32 codes to 16 bytes.
HWY_INLINE void quantise(const std::uint8_t* HWY_RESTRICT codes,
                         const std::array<std::uint8_t, 8>& thresholds, bool negative_zero,
                         std::uint8_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  std::array<std::uint8_t, kGroup> nibbles;
  for (std::size_t i = 0; i < kGroup; ++i) {
    const std::uint8_t magnitude = codes[i] & 0x7F;
    std::uint8_t nibble = codes[i] >> 4 & 8;
    for (std::size_t t = 0; t < 7; ++t) nibble += magnitude >= thresholds[t] ? 1 : 0;
    nibbles[i] = negative_zero && magnitude == 0 ? 8 : nibble;
  }
  for (std::size_t i = 0; i < kGroup / 2; ++i) out[i] = nibbles[2 * i] | nibbles[2 * i + 1] << 4;
#else
  const hn::CappedTag<std::int8_t, kGroup> d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<decltype(d)> > pairs;
  const hn::Rebind<std::uint8_t, decltype(pairs)> narrow;
  const auto magnitude_bits = hn::Set(d, 0x7F);
  for (std::size_t i = 0; i < kGroup; i += hn::Lanes(d)) {
    const auto code = hn::LoadU(d, reinterpret_cast<const std::int8_t*>(codes) + i);
    const auto magnitude = hn::And(code, magnitude_bits);
    auto sign = hn::AndNot(magnitude_bits, code);
    if (negative_zero) {
      const auto is_zero = hn::VecFromMask(d, hn::Eq(magnitude, hn::Zero(d)));
      sign = hn::Or(sign, hn::AndNot(magnitude_bits, is_zero));
    }
    auto count = hn::Zero(d);
    for (std::size_t t = 0; t < 7; ++t) {
      const auto below = hn::Set(d, static_cast<std::int8_t>(thresholds[t] - 1));
      count = hn::Sub(count, hn::VecFromMask(d, hn::Gt(magnitude, below)));
    }
    // In 16-bit lanes the even column is the low byte: gather both nibbles into it.
    const auto counts = hn::BitCast(pairs, count);
    const auto signs = hn::ShiftRight<4>(hn::BitCast(pairs, sign));
    const auto nibbles = hn::Or(counts, signs);
    const auto packed = hn::Or(nibbles, hn::ShiftRight<4>(nibbles));
    hn::StoreU(hn::TruncateTo(narrow, packed), narrow, out + i / 2);
  }
#endif
}

bool row_from_fp8(const std::uint8_t* HWY_RESTRICT fp8, std::size_t columns,
                  const Mxfp4Tables& tables, std::uint8_t* HWY_RESTRICT mxfp4) {
  const std::uint8_t* scales = fp8 + columns;
  std::uint8_t* out_scales = mxfp4 + columns / 2;
  for (std::size_t group = 0; group < columns / kGroup; ++group) {
    const std::uint8_t* codes = fp8 + group * kGroup;
    const std::uint8_t largest = largest_magnitude(codes);
    std::uint8_t* out = mxfp4 + group * kGroup / 2;
    if (largest == 0x7F || scales[group] == 0xFF) return false;
    const std::uint8_t group_class = tables.class_of[largest];
    if (group_class == Mxfp4Tables::kNoClass) {
      quantise(codes, {127, 127, 127, 127, 127, 127, 127, 127}, tables.negative_zero, out);
      out_scales[group] = tables.negative_zero ? 0 : 127;
      continue;
    }
    const bool larger = tables.search ? larger_wins(codes, tables.gain[group_class])
                                      : tables.shift_of[largest] != 0;
    // The class is floor(log2) + 9, and the smaller exponent floor(log2) - 2.
    const int scale = scales[group] + group_class - 9 - 2 + (larger ? 1 : 0);
    if (scale < 0 || scale > 254) return false;
    quantise(codes, tables.thresholds[group_class][larger ? 1 : 0], tables.negative_zero, out);
    out_scales[group] = static_cast<std::uint8_t>(scale);
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
