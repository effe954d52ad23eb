// Keys to row ids: many remainders by known primes at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace engram::simd {

// The columns of one layer; column = order index * heads + head.
struct ModuloTable {
  std::span<const std::uint64_t> primes;   // [orders * heads], each below 2^40
  std::span<const std::uint64_t> offsets;  // [orders * heads]
  std::span<const double> reciprocals;     // [orders * heads], 1.0 / prime
  std::size_t heads;
};

// keys [count, orders], each below 2^63 -> rows [count, orders * heads]:
// rows[i, column] = keys[i, order] % primes[column] + offsets[column].
// Exact on every target. Primes outside [2^13, 2^30] take the scalar way.
void rows_from_keys(const ModuloTable& table, std::span<const std::uint64_t> keys,
                    std::span<std::int64_t> rows);

// The truth: the same by the % operator.
void rows_from_keys_scalar(const ModuloTable& table, std::span<const std::uint64_t> keys,
                           std::span<std::int64_t> rows);

}  // namespace engram::simd
