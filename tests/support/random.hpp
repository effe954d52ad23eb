// Reproducible random numbers for tests: splitmix64 under a literal seed.
#pragma once

#include <cstdint>

namespace engram::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  float symmetric() { return static_cast<float>(static_cast<std::int64_t>(next())) * 0x1p-63f; }

 private:
  std::uint64_t state_;
};

}  // namespace engram::test
