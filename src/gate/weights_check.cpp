// Refuses gate weights that are not numbers.
#include "gate/weights_check.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "simd/fp8.hpp"
#include "simd/projection.hpp"

namespace engram {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

Status check_bytes(std::string_view name, std::span<const std::byte> bytes, std::size_t expected) {
  if (bytes.size() == expected) return {};
  return make_error(Code::corrupt, "gate: {}: expected {} bytes, found {}", name, expected,
                    bytes.size());
}

Status check_fp8_piece(std::span<const std::byte> bytes, std::size_t first) {
  bool bad = false;
  for (const std::byte code : bytes) bad |= (code & std::byte{0x7F}) == std::byte{0x7F};
  if (!bad) return {};
  const auto at = std::find_if(bytes.begin(), bytes.end(), [](std::byte code) {
    return (code & std::byte{0x7F}) == std::byte{0x7F};
  });
  return make_error(Code::corrupt, "gate: wkv: element {} is NaN",
                    first + static_cast<std::size_t>(at - bytes.begin()));
}

Status check_bfloat16(std::string_view name, std::span<const std::byte> bytes, std::size_t first) {
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    if (bfloat16_is_finite(load_le<std::uint16_t>(bytes.data() + i))) continue;
    return make_error(Code::corrupt, "gate: {}: element {} is NaN or infinite", name,
                      first + i / 2);
  }
  return {};
}

Status check_float(std::string_view name, std::span<const std::byte> bytes, std::size_t first) {
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    if (std::isfinite(load_le<float>(bytes.data() + i))) continue;
    return make_error(Code::corrupt, "gate: {}: element {} is NaN or infinite", name,
                      first + i / 4);
  }
  return {};
}

Status check_wkv(const GateTensors& tensors, int threads) {
  const bool fp8 = !tensors.wkv_scale.empty();
  const std::size_t pieces = (tensors.wkv.size() + kPieceBytes - 1) / kPieceBytes;
  return parallel_for(pieces, threads, [&](std::size_t piece) -> Status {
    const std::size_t begin = piece * kPieceBytes;
    const auto bytes =
        tensors.wkv.subspan(begin, std::min(kPieceBytes, tensors.wkv.size() - begin));
    if (fp8) return check_fp8_piece(bytes, begin);
    return tensors.wide ? check_float("wkv", bytes, begin / 4)
                        : check_bfloat16("wkv", bytes, begin / 2);
  });
}

Status check_tile_scales(std::span<const std::byte> scales) {
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const auto scale = static_cast<std::uint8_t>(scales[i]);
    if (scale >= simd::kTileScaleMin && scale <= simd::kTileScaleMax) continue;
    return make_error(scale == 0xFF ? Code::corrupt : Code::unsupported,
                      "gate: wkv scale of tile {}: expected a byte in {}..{}, found {}{}", i,
                      simd::kTileScaleMin, simd::kTileScaleMax, scale,
                      scale == 0xFF ? " (NaN)" : "");
  }
  return {};
}

Status check_tiles(const GateShape& shape, const GateTensors& tensors) {
  if (shape.embedding_dim % simd::kFp8Group != 0) {
    return make_error(Code::unsupported,
                      "gate: wkv: FP8 needs an input width of whole tiles of 32");
  }
  const std::size_t tile_rows = (shape.wkv_rows() + simd::kFp8Group - 1) / simd::kFp8Group;
  ENGRAM_TRY(check_bytes("wkv scale", tensors.wkv_scale,
                         tile_rows * (shape.embedding_dim / simd::kFp8Group)));
  return check_tile_scales(tensors.wkv_scale);
}

}  // namespace

Status check_gate_tensors(const GateShape& shape, const GateTensors& tensors, int threads) {
  if (shape.copies == 0 || shape.hidden_dim == 0 || shape.embedding_dim == 0) {
    return make_error(Code::invalid_argument, "gate: a dimension is 0");
  }
  const std::size_t elements = shape.wkv_rows() * shape.embedding_dim;
  const bool fp8 = !tensors.wkv_scale.empty();
  const std::size_t norm_width = tensors.wide ? 4 : 2;
  const std::size_t width = fp8 ? 1 : norm_width;
  if (fp8 && tensors.wide) {
    return make_error(Code::invalid_argument, "gate: wkv: FP8 scales beside binary32 weights");
  }
  ENGRAM_TRY(check_bytes("wkv", tensors.wkv, width * elements));
  if (fp8) ENGRAM_TRY(check_tiles(shape, tensors));
  if (reinterpret_cast<std::uintptr_t>(tensors.wkv.data()) % width != 0) {
    return make_error(Code::invalid_argument, "gate: wkv: weights of {} bytes, unaligned", width);
  }
  const std::size_t norm_bytes = norm_width * shape.copies * shape.hidden_dim;
  for (const auto& [name, weights] :
       {std::pair{"q_weight", tensors.q_weight}, {"k_weight", tensors.k_weight}}) {
    ENGRAM_TRY(check_bytes(name, weights, norm_bytes));
    ENGRAM_TRY(tensors.wide ? check_float(name, weights, 0) : check_bfloat16(name, weights, 0));
  }
  return check_wkv(tensors, threads);
}

}  // namespace engram
