// Primality of 64-bit numbers.
#include "hash/prime.hpp"

#include <array>

#include "base/uint128.hpp"

namespace engram {
namespace {

constexpr std::array<std::uint64_t, 12> kBases = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};

std::uint64_t multiply_mod(std::uint64_t a, std::uint64_t b, std::uint64_t n) {
  return static_cast<std::uint64_t>(static_cast<Uint128>(a) * b % n);
}

std::uint64_t power_mod(std::uint64_t base, std::uint64_t exponent, std::uint64_t n) {
  std::uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = multiply_mod(result, base, n);
    base = multiply_mod(base, base, n);
  }
  return result;
}

// n - 1 = odd * 2^twos. True if `base` proves n composite.
bool is_witness(std::uint64_t base, std::uint64_t odd, int twos, std::uint64_t n) {
  std::uint64_t x = power_mod(base % n, odd, n);
  if (x == 1 || x == n - 1) return false;
  for (int i = 1; i < twos; ++i) {
    x = multiply_mod(x, x, n);
    if (x == n - 1) return false;
  }
  return true;
}

}  // namespace

bool is_prime(std::uint64_t n) {
  if (n < 2) return false;
  // A base that equals n proves nothing about it (bases 2, 7, 61 alone call 61 composite).
  for (const std::uint64_t base : kBases) {
    if (n % base == 0) return n == base;
  }
  std::uint64_t odd = n - 1;
  int twos = 0;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  for (const std::uint64_t base : kBases) {
    if (is_witness(base, odd, twos, n)) return false;
  }
  return true;
}

}  // namespace engram
