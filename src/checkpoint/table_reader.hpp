// Reads stretches of a table as packed rows, however they lie in the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

#include "base/buffer_pool.hpp"
#include "os/file.hpp"

namespace engram {

// Any number of threads may read at once.
class TableReader {
 public:
  // Code::corrupt where a file is not as its header was read.
  static Result<TableReader> open(const TableSource& source);

  const TableSource& source() const { return source_; }

  // Rows at positions [first, first + count) of the file -> out [count, row_bytes]: codes, scales,
  // biases. Pages are checked on the way. Requires first + count <= source().held_count().
  Status read(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const;

 private:
  // One tensor of the table and the bytes it gives to each row.
  struct Part {
    std::unique_ptr<os::ReadableFile> file;
    std::uint64_t offset_bytes;
    std::size_t row_bytes;
  };

  explicit TableReader(TableSource source) : source_(std::move(source)) {}
  Status add_part(const TensorExtent& tensor, std::size_t row_bytes);
  Status read_parts(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const;
  Status read_pages(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const;

  TableSource source_;
  std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();
  std::vector<Part> parts_;  // codes, scales and biases; or whole rows; or pages
};

// The file is as long as when its header was read, and holds the tensor.
Status check_extent(const TensorExtent& tensor, std::uint64_t file_bytes);
// Opens a tensor's file, after that check.
Result<std::unique_ptr<os::ReadableFile>> open_tensor(const TensorExtent& tensor);

}  // namespace engram
