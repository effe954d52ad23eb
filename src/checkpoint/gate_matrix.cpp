// Matrices of gate weights as binary32, whatever number format they are stored in.
#include "checkpoint/gate_matrix.hpp"

#include <array>

#include "checkpoint/gguf.hpp"
#include "checkpoint/table_reader.hpp"
#include "codec/elements.hpp"
#include "codec/row_codec.hpp"

namespace engram {
Result<GateMatrix> GateMatrix::open(const TensorExtent& tensor,
                                    const std::optional<TensorExtent>& scale) {
  GateMatrix matrix;
  matrix.tensor_ = tensor;
  auto file = open_tensor(tensor);
  if (!file) return std::move(file).error();
  matrix.file_ = *std::move(file);
  if (scale) {
    const auto scales = open_tensor(*scale);
    if (!scales) return scales.error();
    matrix.tile_scales_.resize(scale->size_bytes);
    ENGRAM_TRY((*scales)->read_at(scale->offset_bytes, matrix.tile_scales_));
  }
  return matrix;
}

Status GateMatrix::read(std::uint64_t first, std::uint64_t count, std::span<float> out) const {
  std::vector<std::byte> bytes(count * row_bytes());
  ENGRAM_TRY(file_->read_at(tensor_.offset_bytes + first * row_bytes(), bytes));
  const std::size_t width = columns();
  if (!tile_scales_.empty()) {
    constexpr std::size_t kTile = 32;
    for (std::uint64_t row = 0; row < count; ++row) {
      const std::byte* scales = tile_scales_.data() + (first + row) / kTile * (width / kTile);
      for (std::size_t i = 0; i < width; ++i) {
        out[row * width + i] = float_from_e4m3(static_cast<std::uint8_t>(bytes[row * width + i])) *
                               float_from_e8m0(static_cast<std::uint8_t>(scales[i / kTile]));
      }
    }
    return {};
  }
  const RowLayout layout{*row_format_of_ggml(tensor_.dtype), width};
  for (std::uint64_t row = 0; row < count; ++row) {
    const std::array place = {reinterpret_cast<std::byte*>(out.data() + row * width)};
    decode_rows(layout, OutputFormat::f32, bytes.data() + row * layout.row_bytes(), place);
  }
  return {};
}

}  // namespace engram
