// Binary32 to binary16.
#include "simd/half.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/half.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace engram::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// By integer arithmetic, since targets without a conversion of their own round as they like:
//   normal      (2^-14 and above): rebias the exponent, round the 13 bits that go away to even; a
//               carry out of the mantissa is the next exponent, and after the largest, infinity
//   subnormal   adding 1/2, whose last bit is worth 2^-24, rounds to the steps of binary16
bool encode_half_row(const float* HWY_RESTRICT values, std::size_t columns,
                     std::uint16_t* HWY_RESTRICT out) {
  const hn::CappedTag<float, 16> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<std::uint16_t, decltype(df)> narrow;
  constexpr std::uint32_t kSmallestNormal = (127 - 14) << 23;
  constexpr std::uint32_t kRebias = (127u - 15u) << 23;
  const auto infinity = hn::Set(du, 0x7C00);
  auto largest = hn::Zero(du);
  for (std::size_t i = 0; i < columns; i += hn::Lanes(df)) {
    const auto bits = hn::BitCast(du, hn::LoadU(df, values + i));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFF'FFFF));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
    const auto normal = hn::ShiftRight<13>(
        hn::Add(hn::Sub(magnitude, hn::Set(du, kRebias)), hn::Add(odd, hn::Set(du, 0xFFF))));
    const auto steps = hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(du, steps), hn::BitCast(du, hn::Set(df, 0.5f)));
    auto half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, kSmallestNormal)), subnormal, normal);
    half = hn::Min(half, infinity);
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7F80'0000)), hn::Set(du, 0x7E00), half);
    largest = hn::Max(largest, half);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000));
    hn::StoreU(hn::TruncateTo(narrow, hn::Or(half, sign)), narrow, out + i);
  }
  return hn::AllTrue(du, hn::Lt(largest, infinity));
}

}  // namespace engram::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace engram::simd {

HWY_EXPORT(encode_half_row);

bool encode_half(const float* values, std::size_t columns, std::uint16_t* out) {
  return HWY_DYNAMIC_DISPATCH(encode_half_row)(values, columns, out);
}

}  // namespace engram::simd
#endif
