// Rows of small integer codes with a scale (and a bias) per group, to bfloat16 or binary32.
#include "simd/scaled.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/scaled.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace engram::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Words = hn::RebindToUnsigned<Floats>;
using FloatVec = hn::Vec<Floats>;

// The first magnitude, as bits, that is not finite in the output type.
template <typename T>
constexpr std::uint32_t kFirstBad = sizeof(T) == 2 ? 0x7F7F'8000u : 0x7F80'0000u;

HWY_INLINE void store(FloatVec values, float* HWY_RESTRICT out) {
  hn::StoreU(values, Floats(), out);
}

// Round to nearest even by integer arithmetic, as bfloat16_from_float_bits.
HWY_INLINE void store(FloatVec values, std::uint16_t* HWY_RESTRICT out) {
  const Words d;
  const auto bits = hn::BitCast(d, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF))));
  const hn::Rebind<std::uint16_t, Words> narrow;
  hn::StoreU(hn::TruncateTo(narrow, rounded), narrow, out);
}

// Widens codes, applies the formula, stores; `largest` gathers magnitudes as bits.
template <typename T>
bool decode_row(const ScaledRow& row, T* HWY_RESTRICT out) {
  const Floats df;
  const Words du;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<std::uint8_t, Floats> bytes;
  const auto zero = hn::Set(df, row.zero);
  auto largest = hn::Zero(du);
  for (std::size_t begin = 0; begin < row.columns; begin += row.group) {
    const std::size_t group = begin / row.group;
    const auto scale = hn::Set(df, row.scales[group]);
    const bool biased = row.biases != nullptr;
    const auto bias = hn::Set(df, biased ? row.biases[group] : 0.0f);
    for (std::size_t i = begin; i < begin + row.group; i += hn::Lanes(df)) {
      const auto code = hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(bytes, row.codes + i)));
      auto value = hn::Mul(hn::Sub(code, zero), scale);
      if (biased) value = hn::Add(value, bias);
      largest = hn::Max(largest, hn::And(hn::BitCast(du, value), hn::Set(du, 0x7FFF'FFFF)));
      store(value, out + i);
    }
  }
  return hn::AllTrue(du, hn::Lt(largest, hn::Set(du, kFirstBad<T>)));
}

// Infinities and NaN show in the binary16 bits; some targets widen them as if they were numbers.
template <typename T>
bool decode_half_row(const std::uint16_t* HWY_RESTRICT values, std::size_t columns,
                     T* HWY_RESTRICT out) {
  const Floats df;
  const hn::Rebind<hwy::float16_t, Floats> half;
  const hn::Rebind<std::uint16_t, Floats> words;
  auto largest = hn::Zero(words);
  for (std::size_t i = 0; i < columns; i += hn::Lanes(df)) {
    const auto bits = hn::LoadU(words, values + i);
    largest = hn::Max(largest, hn::And(bits, hn::Set(words, 0x7FFF)));
    store(hn::PromoteTo(df, hn::BitCast(half, bits)), out + i);
  }
  return hn::AllTrue(words, hn::Lt(largest, hn::Set(words, 0x7C00)));
}

bool scaled_to_float(const ScaledRow& row, float* out) { return decode_row(row, out); }
bool scaled_to_bfloat16(const ScaledRow& row, std::uint16_t* out) { return decode_row(row, out); }
bool half_to_float(const std::uint16_t* values, std::size_t columns, float* out) {
  return decode_half_row(values, columns, out);
}
bool half_to_bfloat16(const std::uint16_t* values, std::size_t columns, std::uint16_t* out) {
  return decode_half_row(values, columns, out);
}

void expand(const std::uint8_t* HWY_RESTRICT packed, std::size_t bytes, const NibbleTable& table,
            std::uint8_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < bytes; ++i) {
    out[2 * i] = table[packed[i] & 15];
    out[2 * i + 1] = table[packed[i] >> 4];
  }
#else
  const hn::CappedTag<std::uint8_t, 16> whole;
  const hn::CappedTag<std::uint8_t, 8> half;
  const auto values = hn::LoadU(whole, table.data());
  for (std::size_t i = 0; i < bytes; i += 8) {
    const auto codes = hn::ZeroExtendVector(whole, hn::LoadU(half, packed + i));
    const auto low = hn::And(codes, hn::Set(whole, 15));
    const auto high = hn::ShiftRight<4>(hn::BitCast(whole, codes));
    hn::StoreU(hn::TableLookupBytes(values, hn::InterleaveLower(whole, low, high)), whole,
               out + 2 * i);
  }
#endif
}

}  // namespace engram::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace engram::simd {

HWY_EXPORT(scaled_to_float);
HWY_EXPORT(scaled_to_bfloat16);
HWY_EXPORT(half_to_float);
HWY_EXPORT(half_to_bfloat16);
HWY_EXPORT(expand);

bool decode_scaled(const ScaledRow& row, float* out) {
  return HWY_DYNAMIC_DISPATCH(scaled_to_float)(row, out);
}

bool decode_scaled(const ScaledRow& row, std::uint16_t* out) {
  return HWY_DYNAMIC_DISPATCH(scaled_to_bfloat16)(row, out);
}

bool decode_half(const std::byte* values, std::size_t columns, float* out) {
  return HWY_DYNAMIC_DISPATCH(half_to_float)(reinterpret_cast<const std::uint16_t*>(values),
                                             columns, out);
}

bool decode_half(const std::byte* values, std::size_t columns, std::uint16_t* out) {
  return HWY_DYNAMIC_DISPATCH(half_to_bfloat16)(reinterpret_cast<const std::uint16_t*>(values),
                                                columns, out);
}

void expand_nibbles(const std::uint8_t* packed, std::size_t bytes, const NibbleTable& table,
                    std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(expand)(packed, bytes, table, out);
}

}  // namespace engram::simd
#endif
