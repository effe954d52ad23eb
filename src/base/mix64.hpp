// Spreads the bits of a number.
#pragma once

#include <cstdint>

namespace engram {

// The finaliser of splitmix64: a bijection in which every bit of the result depends on every bit
// of z.
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58'476D'1CE4'E5B9u;
  z = (z ^ z >> 27) * 0x94D0'49BB'1331'11EBu;
  return z ^ z >> 31;
}

}  // namespace engram
