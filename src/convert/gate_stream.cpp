// Streams of gate weights: copied as they lie, or widened and narrowed where that loses nothing.
#include "convert/gate_stream.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "checkpoint/gate_matrix.hpp"
#include "checkpoint/table_reader.hpp"
#include "codec/row_codec.hpp"
#include "codec/row_encode.hpp"

namespace engram {
namespace {

// Gate tensors are small beside tables; a checkpoint for each would only slow the journal.
constexpr std::uint64_t kOneCheckpoint = std::uint64_t{1} << 40;

// values [count, head_dim] to rows of the layout; Code::unsupported where one does not come back.
Status narrow_exactly(const GateMatrix& matrix, std::uint64_t first, std::span<const float> values,
                      const RowLayout& layout, std::span<std::byte> out) {
  const std::size_t width = layout.head_dim;
  std::vector<float> back(width);
  const std::array place = {reinterpret_cast<std::byte*>(back.data())};
  for (std::size_t row = 0; row < values.size() / width; ++row) {
    const auto exact = values.subspan(row * width, width);
    std::byte* packed = out.data() + row * layout.row_bytes();
    encode_row(layout, {}, exact, packed);
    decode_rows(layout, OutputFormat::f32, packed, place);
    for (std::size_t i = 0; i < width; ++i) {
      if (back[i] == exact[i]) continue;
      return make_error(Code::unsupported,
                        "{}: '{}': element [{}, {}] is {}, which {} cannot hold exactly; convert "
                        "the tables alone",
                        matrix.tensor().path, matrix.tensor().name, first + row, i, exact[i],
                        row_format_name(layout.format));
    }
  }
  return {};
}

}  // namespace

Result<Stream> copy_stream(const TensorExtent& tensor, std::size_t target) {
  auto file = open_tensor(tensor);
  if (!file) return std::move(file).error();
  Stream stream;
  stream.units = tensor.shape.empty() ? 1 : std::max<std::uint64_t>(1, tensor.shape.front());
  const std::size_t unit_bytes = tensor.size_bytes / stream.units;
  stream.parts = {{target, unit_bytes}};
  stream.units_per_checkpoint = kOneCheckpoint;
  stream.produce = [file = std::shared_ptr<const os::ReadableFile>(*std::move(file)),
                    offset = tensor.offset_bytes, unit_bytes](
                       std::uint64_t first, std::uint64_t count, std::span<std::byte> out) {
    return file->read_at(offset + first * unit_bytes, out.first(count * unit_bytes));
  };
  return stream;
}

Result<Stream> number_stream(const TensorExtent& tensor, const std::optional<TensorExtent>& scale,
                             RowFormat format, std::size_t target) {
  auto opened = GateMatrix::open(tensor, scale);
  if (!opened) return std::move(opened).error();
  const RowLayout layout{format, opened->columns()};
  Stream stream;
  stream.units = opened->rows();
  stream.parts = {{target, layout.row_bytes()}};
  stream.input_bytes = opened->row_bytes() + 8 * layout.head_dim;
  stream.units_per_checkpoint = kOneCheckpoint;
  stream.produce = [matrix = *std::move(opened), layout](std::uint64_t first, std::uint64_t count,
                                                         std::span<std::byte> out) -> Status {
    std::vector<float> values(count * layout.head_dim);
    ENGRAM_TRY(matrix.read(first, count, values));
    return narrow_exactly(matrix, first, values, layout, out);
  };
  return stream;
}

Result<Stream> rotated_stream(const GateSource& gate, const GateRotation& rotation,
                              std::uint64_t value_rows, std::size_t target) {
  auto stream = number_stream(gate.wkv, gate.wkv_scale, RowFormat::bf16, target);
  if (!stream) return stream;
  auto opened = GateMatrix::open(gate.wkv, gate.wkv_scale);
  if (!opened) return std::move(opened).error();
  const std::uint64_t first_value = stream->units - value_rows;
  stream->produce = [matrix = *std::move(opened), keys = stream->produce, rotation, first_value](
                        std::uint64_t first, std::uint64_t count,
                        std::span<std::byte> out) -> Status {
    const std::size_t width = matrix.columns();
    const std::uint64_t key_count = first < first_value ? std::min(count, first_value - first) : 0;
    if (key_count != 0) ENGRAM_TRY(keys(first, key_count, out));
    std::vector<float> block(rotation.block * width);
    std::uint64_t loaded = ~std::uint64_t{0};
    for (std::uint64_t row = first + key_count; row < first + count; ++row) {
      const std::uint64_t value = row - first_value;
      const std::uint64_t begin = value / rotation.block * rotation.block;
      if (begin != loaded) ENGRAM_TRY(matrix.read(first_value + begin, rotation.block, block));
      loaded = begin;
      std::vector<float> sums(width, 0.0f);
      for (std::size_t j = 0; j < rotation.block; ++j) {
        const float factor = rotation.matrix[j * rotation.block + (value - begin)];
        for (std::size_t i = 0; i < width; ++i) sums[i] += factor * block[j * width + i];
      }
      encode_row({RowFormat::bf16, width}, {}, sums, out.data() + (row - first) * 2 * width);
    }
    return {};
  };
  return stream;
}

}  // namespace engram
