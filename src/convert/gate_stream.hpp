// Streams of gate weights: copied as they lie, or widened and narrowed where that loses nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/gate.hpp"
#include "engram/status.hpp"

#include "convert/output_file.hpp"
#include "os/file.hpp"

namespace engram {

// The bytes of a tensor as they lie, one unit per row of it.
Result<Stream> copy_stream(const TensorExtent& tensor, std::size_t target);

// A matrix of gate weights in another number format: wkv (with its tile scales where it is FP8), or
// a norm. Rows are units. While it runs, a value that the format cannot hold exactly is
// Code::unsupported, naming it. `format` is bf16, f16 or f32.
Result<Stream> number_stream(const TensorExtent& tensor, const std::optional<TensorExtent>& scale,
                             RowFormat format, std::size_t target);

// wkv with Q^T folded into its last `value_rows` rows, as bfloat16: those rows become the products
// sum_j Q[j, r] * V[j] of a block, in binary32 and order of j; the others must be exact.
Result<Stream> rotated_stream(const GateSource& gate, const GateRotation& rotation,
                              std::uint64_t value_rows, std::size_t target);

// Rows [first, first + count) of such a matrix as binary32: what number_stream narrows.
class GateMatrix {
 public:
  static Result<GateMatrix> open(const TensorExtent& tensor,
                                 const std::optional<TensorExtent>& scale);

  std::uint64_t rows() const { return tensor_.shape.front(); }
  std::size_t columns() const { return tensor_.shape.back(); }
  std::size_t row_bytes() const { return tensor_.size_bytes / rows(); }
  const TensorExtent& tensor() const { return tensor_; }

  // Any number of threads may read at once.
  Status read(std::uint64_t first, std::uint64_t count, std::span<float> out) const;

 private:
  TensorExtent tensor_;
  std::shared_ptr<const os::ReadableFile> file_;
  std::vector<std::byte> tile_scales_;  // [rows / 32, columns / 32], where it is FP8
};

}  // namespace engram
