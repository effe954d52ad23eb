// Streams of a table's rows in another format: packed, or in pages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engram/status.hpp"
#include "engram/table.hpp"

#include "base/buffer_pool.hpp"
#include "checkpoint/table_reader.hpp"
#include "codec/transcode.hpp"
#include "convert/output_file.hpp"

namespace engram {

// Rows of a source table, transcoded. Shared by the streams made of it.
class TableRows {
 public:
  // `positions`: the stretches of the source file to take, in order; none given: all of it.
  static Result<TableRows> open(const TableSource& source, const RowLayout& to,
                                const Mxfp4Rule& rule,
                                std::optional<std::vector<RowRange>> positions = {});

  const RowLayout& layout() const { return transcoder_.to(); }
  std::uint64_t count() const { return count_; }
  BufferPool& buffers() const { return *buffers_; }
  std::size_t input_row_bytes() const { return transcoder_.from().row_bytes(); }

  // Rows [first, first + count) of those taken -> out [count, row_bytes]. Code::corrupt names a row
  // that holds a NaN or an infinity.
  Status produce(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const;

 private:
  TableRows(TableReader reader, Transcoder transcoder, std::vector<RowRange> positions);
  Status produce_stretch(std::uint64_t position, std::uint64_t count,
                         std::span<std::byte> out) const;

  std::shared_ptr<const TableReader> reader_;
  std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();
  Transcoder transcoder_;
  std::vector<RowRange> positions_;
  std::uint64_t count_ = 0;
};

// Packed rows. `tensors` are the indices of codes, scales and biases; one index: whole rows.
Stream row_stream(TableRows rows, const std::vector<std::size_t>& tensors,
                  std::uint64_t rows_per_checkpoint);

// Sealed pages, into one tensor.
Stream page_stream(TableRows rows, std::uint64_t identity, std::size_t tensor,
                   std::uint64_t rows_per_checkpoint);

// SHA-256 over a table's layer, shape, format and 1,024 rows spread over it: tells two tables apart
// without reading 100 GB.
Result<std::string> table_fingerprint(const TableSource& source);

}  // namespace engram
