// Bytes that follow from a seed: splitmix64 rows, weights and norms.
#include "convert/procedural.hpp"

#include <vector>

#include "engram/convert.hpp"

#include "base/bytes.hpp"

namespace engram {
namespace {

// Scale bytes of table rows: 2^-9 .. 2^-7, the range of the released tables.
constexpr std::uint8_t kRowScale = 0x76;
// Scale bytes of wkv tiles: 2^-15 .. 2^-13, which makes projections of such rows about 1.
constexpr std::uint8_t kTileScale = 0x70;

SplitMix64 generator(std::uint64_t seed, std::int64_t layer_id, std::uint64_t low) {
  const std::uint64_t start = seed + (static_cast<std::uint64_t>(layer_id) << 32) + low;
  return SplitMix64(mix64(start));
}

// Streams of gate weights start where no row id can: at the top of 64 bits.
SplitMix64 weight_generator(std::uint64_t seed, std::int64_t layer_id, std::uint64_t stream) {
  return generator(seed, layer_id, (stream + 1) << 56);
}

std::byte without_nan(std::byte code) {
  return (code & std::byte{0x7F}) == std::byte{0x7F} ? code ^ std::byte{1} : code;
}

// Fills `out` with consecutive outputs, little endian, each byte through `change`.
template <typename Change>
void fill(SplitMix64& bits, std::span<std::byte> out, Change change) {
  for (std::size_t i = 0; i < out.size(); i += 8) {
    const std::uint64_t word = bits.next();
    for (std::size_t j = i; j < out.size() && j < i + 8; ++j) {
      out[j] = change(static_cast<std::byte>(word >> (8 * (j - i))));
    }
  }
}

auto scale_from(std::uint8_t smallest) {
  return [smallest](std::byte byte) {
    return static_cast<std::byte>(smallest + static_cast<std::uint8_t>(byte) % 3);
  };
}

}  // namespace

void fill_procedural_row(std::uint64_t seed, std::int64_t layer_id, std::uint64_t row,
                         std::span<std::byte> codes, std::span<std::byte> scales) {
  SplitMix64 bits = generator(seed, layer_id, row);
  fill(bits, codes, without_nan);
  fill(bits, scales, scale_from(kRowScale));
}

std::vector<std::byte> procedural_row(std::uint64_t seed, std::int64_t layer_id, RowId row) {
  std::vector<std::byte> bytes(kProceduralHeadDim + kProceduralScales);
  fill_procedural_row(seed, layer_id, static_cast<std::uint64_t>(row),
                      std::span(bytes).first(kProceduralHeadDim),
                      std::span(bytes).subspan(kProceduralHeadDim));
  return bytes;
}

void fill_fp8_weights(std::uint64_t seed, std::int64_t layer_id, std::uint64_t stream,
                      std::span<std::byte> codes) {
  SplitMix64 bits = weight_generator(seed, layer_id, stream);
  fill(bits, codes, without_nan);
}

void fill_tile_scales(std::uint64_t seed, std::int64_t layer_id, std::uint64_t stream,
                      std::span<std::byte> scales) {
  SplitMix64 bits = weight_generator(seed, layer_id, stream);
  fill(bits, scales, scale_from(kTileScale));
}

void fill_norm_weights(std::uint64_t seed, std::int64_t layer_id, std::uint64_t stream,
                       std::span<std::byte> bfloat16) {
  SplitMix64 bits = weight_generator(seed, layer_id, stream);
  // 0x3F40 is 0.75 and 0x3F7F the last value below 1.
  for (std::size_t i = 0; i + 1 < bfloat16.size(); i += 2) {
    store_le(bfloat16.data() + i, static_cast<std::uint16_t>(0x3F40 + (bits.next() >> 58)));
  }
}

}  // namespace engram
