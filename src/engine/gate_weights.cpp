// Loads one layer's gate weights from its files and owns them.
#include "engine/gate_weights.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "checkpoint/gate_matrix.hpp"
#include "checkpoint/rotation_file.hpp"
#include "gate/rotation.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

constexpr std::size_t kReadBytes = std::size_t{4} << 20;

Result<std::span<const std::byte>> load_tensor(const TensorExtent& tensor, int threads,
                                               std::vector<os::HugeBuffer>& buffers) {
  const auto file = os::open_file(tensor.path);
  if (!file) return file.error();
  auto buffer = os::HugeBuffer::allocate(tensor.size_bytes);
  if (!buffer) return std::move(buffer).error();
  const std::span<std::byte> bytes = buffer->bytes().first(tensor.size_bytes);
  const std::size_t pieces = (bytes.size() + kReadBytes - 1) / kReadBytes;
  ENGRAM_TRY(parallel_for(pieces, threads, [&](std::size_t piece) {
    const std::size_t begin = piece * kReadBytes;
    return (*file)->read_at(tensor.offset_bytes + begin,
                            bytes.subspan(begin, std::min(kReadBytes, bytes.size() - begin)));
  }));
  buffers.push_back(*std::move(buffer));
  return std::span<const std::byte>(bytes);
}

// The same as binary32.
Result<std::span<const std::byte>> load_widened(const TensorExtent& tensor, int threads,
                                                std::vector<os::HugeBuffer>& buffers) {
  const auto matrix = GateMatrix::open(tensor, {});
  if (!matrix) return matrix.error();
  const std::size_t columns = matrix->columns();
  const std::size_t bytes = matrix->rows() * columns * sizeof(float);
  auto buffer = os::HugeBuffer::allocate(bytes);
  if (!buffer) return std::move(buffer).error();
  const std::span out(reinterpret_cast<float*>(buffer->bytes().data()), matrix->rows() * columns);
  const std::size_t rows_at_once = std::max<std::size_t>(1, kReadBytes / matrix->row_bytes());
  const std::size_t pieces = (matrix->rows() + rows_at_once - 1) / rows_at_once;
  ENGRAM_TRY(parallel_for(pieces, threads, [&](std::size_t piece) {
    const std::size_t first = piece * rows_at_once;
    const std::size_t count = std::min<std::size_t>(rows_at_once, matrix->rows() - first);
    return matrix->read(first, count, out.subspan(first * columns, count * columns));
  }));
  buffers.push_back(*std::move(buffer));
  return std::span<const std::byte>(buffers.back().bytes().first(bytes));
}

bool is_wide(const GateSource& source) {
  const bool wkv = source.wkv_scale || source.wkv.dtype == "BF16";
  return !wkv || source.q_weight.dtype != "BF16" || source.k_weight.dtype != "BF16";
}

}  // namespace

Result<GateRotation> load_rotation(const Checkpoint& checkpoint) {
  if (!checkpoint.rotation()) return GateRotation();
  const auto matrix = read_rotation(*checkpoint.rotation());
  if (!matrix) return matrix.error();
  return find_rotation_block(*matrix, static_cast<std::size_t>(checkpoint.config().hidden_dim));
}

Result<LoadedGate> load_gate(const GateSource& source, const ModelConfig& config,
                             const GateRotation& rotation, int threads) {
  const GateShape shape{static_cast<std::size_t>(config.copies),
                        static_cast<std::size_t>(config.hidden_dim),
                        static_cast<std::size_t>(config.embedding_dim())};
  std::vector<os::HugeBuffer> buffers;
  GateTensors tensors;
  tensors.wide = is_wide(source);
  const auto load = [&](const TensorExtent& extent, std::span<const std::byte>& place) -> Status {
    const auto bytes = tensors.wide ? load_widened(extent, threads, buffers)
                                    : load_tensor(extent, threads, buffers);
    if (!bytes) return bytes.error();
    place = *bytes;
    return {};
  };
  ENGRAM_TRY(load(source.wkv, tensors.wkv));
  if (source.wkv_scale) ENGRAM_TRY(load(*source.wkv_scale, tensors.wkv_scale));
  ENGRAM_TRY(load(source.q_weight, tensors.q_weight));
  ENGRAM_TRY(load(source.k_weight, tensors.k_weight));
  auto gate = Gate::create(shape, tensors, config.norm_eps, threads, rotation);
  if (!gate) {
    return with_context(std::move(gate).error(),
                        fmt::format("{}: layer {}", source.wkv.path, source.layer_id));
  }
  return LoadedGate{std::move(buffers), *std::move(gate)};
}

}  // namespace engram
