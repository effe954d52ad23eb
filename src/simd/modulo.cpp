// Keys to row ids: many remainders by known primes at once.
#include "simd/modulo.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/modulo.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace engram::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// x mod p by a double reciprocal, in 64-bit lanes:
//   q = round(x * (1/p))     x < 2^63 rounds to a double with relative error 2^-53, 1/p and the
//                            product add as much again; q < 2^50 for p >= 2^13, so q is within
//                            0.5 + 2^-1 of x/p and the remainder within (-p, p).
//   r = x - q*p              only the low 32 bits are needed, since |r| < p <= 2^30
//   r = min(r, r + p)        as unsigned 32-bit numbers: a negative r is a huge one
// Rounding to an integer adds 1.5 * 2^52, which leaves q in the low mantissa bits.
constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52

#if HWY_TARGET != HWY_SCALAR
// One order of one position: `heads` remainders of x. Returns the number of heads done.
HWY_INLINE std::size_t vector_heads(std::uint64_t x, const std::uint64_t* HWY_RESTRICT primes,
                                    const std::uint64_t* HWY_RESTRICT offsets,
                                    const double* HWY_RESTRICT reciprocals, std::size_t heads,
                                    std::int64_t* HWY_RESTRICT rows) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::RebindToFloat<decltype(d64)> df;
  const hn::RebindToSigned<decltype(d64)> di;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  const auto low_half = hn::Set(d64, 0xFFFF'FFFFu);
  const auto value = hn::Set(d64, x);
  const auto real = hn::Set(df, static_cast<double>(static_cast<std::int64_t>(x)));
  const std::size_t lanes = hn::Lanes(d64);
  std::size_t head = 0;
  for (; head + lanes <= heads; head += lanes) {
    const auto prime = hn::LoadU(d64, primes + head);
    const auto shifted =
        hn::Add(hn::Mul(real, hn::LoadU(df, reciprocals + head)), hn::Set(df, kRound));
    const auto quotient = hn::BitCast(d32, shifted);  // its low 32 bits, in even lanes
    const auto product = hn::MulEven(quotient, hn::BitCast(d32, prime));
    const auto remainder = hn::Sub(value, product);
    const auto raw = hn::BitCast(d32, hn::And(remainder, low_half));
    const auto fixed = hn::BitCast(d32, hn::And(hn::Add(remainder, prime), low_half));
    const auto result =
        hn::Add(hn::BitCast(d64, hn::Min(raw, fixed)), hn::LoadU(d64, offsets + head));
    hn::StoreU(hn::BitCast(di, result), di, rows + head);
  }
  return head;
}
#endif

void rows_from_keys(const ModuloTable& table, std::span<const std::uint64_t> keys,
                    std::span<std::int64_t> rows) {
#if HWY_TARGET == HWY_SCALAR
  rows_from_keys_scalar(table, keys, rows);
#else
  const std::size_t heads = table.heads;
  const std::size_t orders = table.primes.size() / heads;
  std::int64_t* out = rows.data();
  for (std::size_t i = 0; i < keys.size(); ++i, out += heads) {
    const std::size_t first = i % orders * heads;
    const std::uint64_t* primes = table.primes.data() + first;
    const std::uint64_t* offsets = table.offsets.data() + first;
    std::size_t head =
        vector_heads(keys[i], primes, offsets, table.reciprocals.data() + first, heads, out);
    for (; head < heads; ++head) {
      out[head] = static_cast<std::int64_t>(keys[i] % primes[head] + offsets[head]);
    }
  }
#endif
}

}  // namespace engram::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace engram::simd {

HWY_EXPORT(rows_from_keys);

namespace {
// Below, a quotient does not fit the mantissa trick; above, a remainder does not fit 32 bits.
constexpr std::uint64_t kVectorPrimeMin = std::uint64_t{1} << 13;
constexpr std::uint64_t kVectorPrimeMax = std::uint64_t{1} << 30;
}  // namespace

void rows_from_keys(const ModuloTable& table, std::span<const std::uint64_t> keys,
                    std::span<std::int64_t> rows) {
  const bool vector = std::all_of(table.primes.begin(), table.primes.end(), [](std::uint64_t p) {
    return p >= kVectorPrimeMin && p <= kVectorPrimeMax;
  });
  if (!vector) return rows_from_keys_scalar(table, keys, rows);
  HWY_DYNAMIC_DISPATCH(rows_from_keys)(table, keys, rows);
}

void rows_from_keys_scalar(const ModuloTable& table, std::span<const std::uint64_t> keys,
                           std::span<std::int64_t> rows) {
  const std::size_t heads = table.heads;
  const std::size_t orders = table.primes.size() / heads;
  std::int64_t* out = rows.data();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t first = i % orders * heads;
    for (std::size_t column = first; column < first + heads; ++column) {
      *out++ = static_cast<std::int64_t>(keys[i] % table.primes[column] + table.offsets[column]);
    }
  }
}

}  // namespace engram::simd
#endif
