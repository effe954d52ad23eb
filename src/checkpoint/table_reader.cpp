// Reads stretches of a table as packed rows, however they lie in the files.
#include "checkpoint/table_reader.hpp"

#include <algorithm>
#include <cstring>

#include "engram/table.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"

namespace engram {

Status check_extent(const TensorExtent& tensor, std::uint64_t file_bytes) {
  if (file_bytes == tensor.file_bytes &&
      range_fits(tensor.offset_bytes, tensor.size_bytes, file_bytes)) {
    return {};
  }
  return make_error(Code::corrupt,
                    "{}: changed since its header was read: expected {} bytes, found {}",
                    tensor.path, tensor.file_bytes, file_bytes);
}

Result<std::unique_ptr<os::ReadableFile>> open_tensor(const TensorExtent& tensor) {
  auto file = os::open_files(tensor.files());
  if (file) ENGRAM_TRY(check_extent(tensor, (*file)->size_bytes()));
  return file;
}

Status TableReader::add_part(const TensorExtent& tensor, std::size_t row_bytes) {
  auto file = open_tensor(tensor);
  if (!file) return std::move(file).error();
  parts_.push_back({*std::move(file), tensor.offset_bytes, row_bytes});
  return {};
}

Result<TableReader> TableReader::open(const TableSource& source) {
  TableReader reader(source);
  const RowLayout& layout = source.layout;
  const bool split = source.placement == RowPlacement::split;
  ENGRAM_TRY(reader.add_part(source.weight, split ? layout.code_bytes() : layout.row_bytes()));
  if (split && source.scale) ENGRAM_TRY(reader.add_part(*source.scale, layout.scale_bytes()));
  if (split && source.bias) ENGRAM_TRY(reader.add_part(*source.bias, layout.bias_bytes()));
  return reader;
}

Status TableReader::read(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const {
  return source_.placement == RowPlacement::paged ? read_pages(first, count, out)
                                                  : read_parts(first, count, out);
}

Status TableReader::read_parts(std::uint64_t first, std::uint64_t count,
                               std::span<std::byte> out) const {
  if (parts_.size() == 1) {
    const Part& part = parts_.front();
    return part.file->read_at(part.offset_bytes + first * part.row_bytes,
                              out.first(count * part.row_bytes));
  }
  const std::size_t row_bytes = source_.layout.row_bytes();
  // A stretch at a time, so that what was read is still near when it is put in its place.
  constexpr std::size_t kNearBytes = std::size_t{512} << 10;
  const std::uint64_t near_rows = std::max<std::uint64_t>(1, kNearBytes / row_bytes);
  if (count > near_rows) {
    for (std::uint64_t done = 0; done < count; done += near_rows) {
      const std::uint64_t rows = std::min(near_rows, count - done);
      ENGRAM_TRY(read_parts(first + done, rows, out.subspan(done * row_bytes, rows * row_bytes)));
    }
    return {};
  }
  std::byte* column = out.data();
  for (const Part& part : parts_) {
    const auto borrowed = buffers_->take(count * part.row_bytes);
    const std::span<std::byte> buffer = borrowed.bytes();
    ENGRAM_TRY(part.file->read_at(part.offset_bytes + first * part.row_bytes, buffer));
    for (std::uint64_t row = 0; row < count; ++row) {
      std::memcpy(column + row * row_bytes, buffer.data() + row * part.row_bytes, part.row_bytes);
    }
    column += part.row_bytes;
  }
  return {};
}

Status TableReader::read_pages(std::uint64_t first, std::uint64_t count,
                               std::span<std::byte> out) const {
  const Part& part = parts_.front();
  const std::uint64_t per_page = rows_per_page(source_.layout);
  constexpr std::uint64_t kPagesAtOnce = 512;
  const auto borrowed = buffers_->take(kPagesAtOnce * kPageBytes);
  const std::uint64_t end = first + count;
  for (std::uint64_t row = first; row < end;) {
    const std::uint64_t page = row / per_page;
    const std::uint64_t last_page = std::min((end - 1) / per_page, page + kPagesAtOnce - 1);
    const std::span<std::byte> buffer = borrowed.bytes().first((last_page - page + 1) * kPageBytes);
    ENGRAM_TRY(part.file->read_at(part.offset_bytes + page * kPageBytes, buffer));
    for (std::uint64_t i = page; i <= last_page; ++i) {
      const auto bytes = buffer.subspan((i - page) * kPageBytes, kPageBytes);
      ENGRAM_TRY(check_page(bytes, i, source_.page_identity, source_.weight.path));
      const std::uint64_t stop = std::min((i + 1) * per_page, end);
      std::memcpy(out.data() + (row - first) * part.row_bytes,
                  bytes.data() + (row - i * per_page) * part.row_bytes,
                  (stop - row) * part.row_bytes);
      row = stop;
    }
  }
  return {};
}

}  // namespace engram
