// FP8 rows (E4M3FN codes, one E8M0 scale byte per 32 of them) to bfloat16 or binary32.
#include "simd/fp8.hpp"

#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/fp8.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace engram::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A bfloat16 is sign, 8 exponent bits, 7 fraction bits. For scale bytes s in 10..246 and no NaN
// code the result is zero or normal, and no multiplication is needed. With x = code & 0x7F:
//   normal code (x >= 8):    bits = (x << 4) + ((s - 7) << 7)      exponent bias 7 against 127
//   subnormal (0 < x < 8):   the same for x + delta[x], where delta renormalises x * 2^-9:
//                            delta[x] = 8 * (floor(log2 x) - 2) + fraction - x
//   zero:                    zero
// and the sign moves from bit 7 to bit 15.
constexpr std::uint8_t kScaleMin = 10;
constexpr std::uint8_t kScaleMax = 246;

#if HWY_TARGET != HWY_SCALAR
// One scale group is 32 codes; wider vectors would span groups of different scale.
using Words = hn::CappedTag<std::int16_t, kFp8Group>;
using Bytes = hn::Rebind<std::int8_t, Words>;
using WordVec = hn::Vec<Words>;

// By min(x, 15); fractions are in eighths, as in a code.
alignas(16) constexpr std::array<std::int8_t, 16> kDelta = {0, -17, -10, -7, -4, -3, -2, -1};

// TableLookupBytes wants the table in a whole vector of at least 16 bytes; on the narrowest targets
// Bytes is half of one.
HWY_INLINE hn::Vec<hn::Repartition<std::int8_t, Words>> delta_table() {
  return hn::LoadDup128(hn::Repartition<std::int8_t, Words>(), kDelta.data());
}

// `largest` gathers the largest x seen, which shows NaN codes.
HWY_INLINE WordVec decode_words(const std::uint8_t* HWY_RESTRICT codes, std::uint8_t scale,
                                hn::Vec<Bytes>& largest) {
  const Bytes d;
  const Words dw;
  const auto code = hn::LoadU(d, reinterpret_cast<const std::int8_t*>(codes));
  const auto x = hn::And(code, hn::Set(d, 0x7F));
  largest = hn::Max(largest, x);
  const auto delta = hn::TableLookupBytes(delta_table(), hn::Min(x, hn::Set(d, 15)));
  const auto bias = hn::Set(dw, static_cast<std::int16_t>((scale - 7) << 7));
  const auto magnitude = hn::Add(hn::ShiftLeft<4>(hn::PromoteTo(dw, hn::Add(x, delta))), bias);
  const auto nonzero = hn::Ne(hn::PromoteTo(dw, x), hn::Zero(dw));
  const auto sign = hn::ShiftLeft<8>(hn::PromoteTo(dw, hn::AndNot(hn::Set(d, 0x7F), code)));
  return hn::Or(hn::IfThenElseZero(nonzero, magnitude), sign);
}

HWY_INLINE void store_words(WordVec words, std::uint16_t* HWY_RESTRICT out) {
  const hn::RebindToUnsigned<Words> d;
  hn::StoreU(hn::BitCast(d, words), d, out);
}

HWY_INLINE void store_words(WordVec words, float* HWY_RESTRICT out) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<Words>> wide;
  const hn::RebindToFloat<decltype(wide)> real;
  const hn::Half<hn::RebindToUnsigned<Words>> half;
  const auto bits = hn::BitCast(hn::RebindToUnsigned<Words>(), words);
  const auto lower = hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LowerHalf(half, bits)));
  const auto upper = hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::UpperHalf(half, bits)));
  hn::StoreU(hn::BitCast(real, lower), real, out);
  hn::StoreU(hn::BitCast(real, upper), real, out + hn::Lanes(real));
}

// False where the row needs the scalar way; then `out` may hold anything.
template <typename T>
HWY_INLINE bool decode_row(const std::uint8_t* HWY_RESTRICT codes, std::size_t head_dim,
                           T* HWY_RESTRICT out) {
  const Bytes d;
  const std::uint8_t* scales = codes + head_dim;
  auto largest = hn::Zero(d);
  for (std::size_t group = 0; group < head_dim / kFp8Group; ++group) {
    const std::uint8_t scale = scales[group];
    if (scale < kScaleMin || scale > kScaleMax) return false;
    for (std::size_t i = group * kFp8Group; i < (group + 1) * kFp8Group; i += hn::Lanes(d)) {
      store_words(decode_words(codes + i, scale, largest), out + i);
    }
  }
  return hn::AllTrue(d, hn::Lt(largest, hn::Set(d, 0x7F)));
}
#endif  // HWY_TARGET != HWY_SCALAR

template <typename T>
std::size_t decode_rows(const Fp8Rows& rows, std::span<T* const> outputs) {
#if HWY_TARGET == HWY_SCALAR
  return decode_fp8_scalar(rows, outputs);
#else
  const std::size_t row_bytes = rows.head_dim + rows.head_dim / kFp8Group;
  std::size_t first_bad = outputs.size();
  for (std::size_t row = 0; row < outputs.size(); ++row) {
    const std::uint8_t* codes = rows.packed + row * row_bytes;
    if (decode_row(codes, rows.head_dim, outputs[row])) continue;
    const std::size_t bad = decode_fp8_scalar({codes, rows.head_dim}, outputs.subspan(row, 1));
    if (bad == 0 && first_bad == outputs.size()) first_bad = row;
  }
  return first_bad;
#endif
}

std::size_t decode_to_bfloat16(const Fp8Rows& rows, std::span<std::uint16_t* const> outputs) {
  return decode_rows(rows, outputs);
}

std::size_t decode_to_float(const Fp8Rows& rows, std::span<float* const> outputs) {
  return decode_rows(rows, outputs);
}

}  // namespace engram::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace engram::simd {

HWY_EXPORT(decode_to_bfloat16);
HWY_EXPORT(decode_to_float);

std::size_t decode_fp8(const Fp8Rows& rows, std::span<std::uint16_t* const> outputs) {
  return HWY_DYNAMIC_DISPATCH(decode_to_bfloat16)(rows, outputs);
}

std::size_t decode_fp8(const Fp8Rows& rows, std::span<float* const> outputs) {
  return HWY_DYNAMIC_DISPATCH(decode_to_float)(rows, outputs);
}

}  // namespace engram::simd
#endif
