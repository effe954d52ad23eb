// Matrices of gate weights as binary32, whatever number format they are stored in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

#include "os/file.hpp"

namespace engram {

// wkv (with its tile scales where it is FP8), or a norm. Requires a dtype that is also a row
// format.
class GateMatrix {
 public:
  static Result<GateMatrix> open(const TensorExtent& tensor,
                                 const std::optional<TensorExtent>& scale);

  std::uint64_t rows() const { return tensor_.shape.front(); }
  std::size_t columns() const { return tensor_.shape.back(); }
  std::size_t row_bytes() const { return tensor_.size_bytes / rows(); }
  const TensorExtent& tensor() const { return tensor_; }

  // Rows [first, first + count) -> out [count, columns]. Any number of threads may read at once.
  Status read(std::uint64_t first, std::uint64_t count, std::span<float> out) const;

 private:
  TensorExtent tensor_;
  std::shared_ptr<const os::ReadableFile> file_;
  std::vector<std::byte> tile_scales_;  // [rows / 32, columns / 32], where it is FP8
};

}  // namespace engram
