// Bytes that follow from a seed: splitmix64 rows, weights and norms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/mix64.hpp"

namespace engram {

// The geometry of the release, which procedural models keep.
inline constexpr std::size_t kProceduralHeadDim = 256;
inline constexpr std::size_t kProceduralScales = 8;

// Reference: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t state) : state_(state) {}
  std::uint64_t next() {
    state_ += 0x9E37'79B9'7F4A'7C15u;
    return mix64(state_);
  }

 private:
  std::uint64_t state_;
};

// codes [256], scales [8] of one table row; the rule is in convert.hpp.
void fill_procedural_row(std::uint64_t seed, std::int64_t layer_id, std::uint64_t row,
                         std::span<std::byte> codes, std::span<std::byte> scales);

// Gate weights. `stream` tells tensors of one layer apart; bytes depend on (seed, layer, stream).
void fill_fp8_weights(std::uint64_t seed, std::int64_t layer_id, std::uint64_t stream,
                      std::span<std::byte> codes);
void fill_tile_scales(std::uint64_t seed, std::int64_t layer_id, std::uint64_t stream,
                      std::span<std::byte> scales);
// bfloat16 in [0.75, 1): near one, as norm weights are.
void fill_norm_weights(std::uint64_t seed, std::int64_t layer_id, std::uint64_t stream,
                       std::span<std::byte> bfloat16);

}  // namespace engram
