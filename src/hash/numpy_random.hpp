// NumPy's default_rng(seed).integers(0, bound, dtype=int64), bit for bit.
#pragma once

#include <array>
#include <cstdint>

#include "engram/status.hpp"

#include "base/uint128.hpp"

namespace engram {

// SeedSequence's entropy pool. Reference: numpy/random/bit_generator.pyx, SeedSequence.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t seed);
  const std::array<std::uint32_t, 4>& pool() const { return pool_; }
  // The first four 64-bit words of generate_state.
  std::array<std::uint64_t, 4> state_words() const;

 private:
  std::array<std::uint32_t, 4> pool_{};
};

// PCG64, XSL-RR 128/64. Reference: O'Neill, "PCG: A Family of Simple Fast Space-Efficient
// Statistically Good Algorithms for Random Number Generation", 2014; numpy/random/src/pcg64.
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed);
  std::uint64_t next();
  // Uniform in [0, bound), by Lemire's method ("Fast Random Integer Generation in an Interval",
  // 2019) on 64-bit draws. Code::unsupported for 1 < bound <= 2^32, where NumPy takes another path
  // (buffered 32-bit draws). bound == 1 gives 0 without a draw; bound == 0 is invalid.
  Result<std::uint64_t> below(std::uint64_t bound);

  Uint128 state() const { return state_; }
  Uint128 increment() const { return increment_; }

 private:
  void step();
  Uint128 state_ = 0;
  Uint128 increment_ = 0;
};

}  // namespace engram
