// Primality of 64-bit numbers.
#pragma once

#include <cstdint>

namespace engram {

// Exact for every n. Miller-Rabin with the first twelve primes as bases decides all n < 2^64
// (Sorenson and Webster, "Strong pseudoprimes to twelve prime bases", 2015).
bool is_prime(std::uint64_t n);

}  // namespace engram
