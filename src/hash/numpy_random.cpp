// NumPy's default_rng(seed).integers(0, bound, dtype=int64), bit for bit.
#include "hash/numpy_random.hpp"

#include <bit>
#include <limits>

#include "base/error.hpp"

namespace engram {
namespace {

// Constants of SeedSequence.
constexpr std::uint32_t kInitA = 0x43b0d7e5;
constexpr std::uint32_t kMultA = 0x931e8875;
constexpr std::uint32_t kInitB = 0x8b51f9dd;
constexpr std::uint32_t kMultB = 0x58f38ded;
constexpr std::uint32_t kMixLeft = 0xca01f9dd;
constexpr std::uint32_t kMixRight = 0x4973f715;
constexpr int kShift = 16;

// The multiplier of PCG64's linear congruential step, high and low half.
constexpr Uint128 kPcgMultiplier =
    static_cast<Uint128>(0x2360ED051FC65DA4) << 64 | 0x4385DF649FCCF645;

// SeedSequence's running hash; `constant` persists from word to word.
std::uint32_t hash_mix(std::uint32_t value, std::uint32_t& constant, std::uint32_t multiplier) {
  value ^= constant;
  constant *= multiplier;
  value *= constant;
  return value ^ (value >> kShift);
}

std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t result = kMixLeft * x - kMixRight * y;
  return result ^ (result >> kShift);
}

}  // namespace

SeedSequence::SeedSequence(std::uint64_t seed) {
  // Entropy as 32-bit words, low first; words beyond the seed's own count as zeros.
  const std::array<std::uint32_t, 4> entropy = {static_cast<std::uint32_t>(seed),
                                                static_cast<std::uint32_t>(seed >> 32), 0, 0};
  std::uint32_t constant = kInitA;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    pool_[i] = hash_mix(entropy[i], constant, kMultA);
  }
  for (std::size_t source = 0; source < pool_.size(); ++source) {
    for (std::size_t target = 0; target < pool_.size(); ++target) {
      if (source == target) continue;
      pool_[target] = mix(pool_[target], hash_mix(pool_[source], constant, kMultA));
    }
  }
}

std::array<std::uint64_t, 4> SeedSequence::state_words() const {
  std::array<std::uint32_t, 8> words{};
  std::uint32_t constant = kInitB;
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = hash_mix(pool_[i % pool_.size()], constant, kMultB);
  }
  std::array<std::uint64_t, 4> pairs{};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i] = static_cast<std::uint64_t>(words[2 * i + 1]) << 32 | words[2 * i];
  }
  return pairs;
}

Pcg64::Pcg64(std::uint64_t seed) {
  const auto words = SeedSequence(seed).state_words();
  increment_ = (static_cast<Uint128>(words[2]) << 64 | words[3]) << 1 | 1;
  step();
  state_ += static_cast<Uint128>(words[0]) << 64 | words[1];
  step();
}

void Pcg64::step() { state_ = state_ * kPcgMultiplier + increment_; }

std::uint64_t Pcg64::next() {
  step();
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

Result<std::uint64_t> Pcg64::below(std::uint64_t bound) {
  if (bound == 0) return make_error(Code::invalid_argument, "random bound: expected 1 or more");
  if (bound == 1) return std::uint64_t{0};
  if (bound <= std::uint64_t{1} << 32) {
    return make_error(Code::unsupported,
                      "random bound {}: NumPy draws bounds up to 2^32 from 32-bit words, which is "
                      "not reproduced here",
                      bound);
  }
  const auto product = [&] { return static_cast<Uint128>(next()) * bound; };
  Uint128 scaled = product();
  if (static_cast<std::uint64_t>(scaled) < bound) {
    const std::uint64_t threshold = (std::numeric_limits<std::uint64_t>::max() - bound + 1) % bound;
    while (static_cast<std::uint64_t>(scaled) < threshold) scaled = product();
  }
  return static_cast<std::uint64_t>(scaled >> 64);
}

}  // namespace engram
