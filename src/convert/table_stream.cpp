// Streams of a table's rows in another format: packed, or in pages.
#include "convert/table_stream.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/sha256.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kFingerprintRows = 1024;

}  // namespace

TableRows::TableRows(TableReader reader, Transcoder transcoder, std::vector<RowRange> positions)
    : reader_(std::make_shared<const TableReader>(std::move(reader))),
      transcoder_(std::move(transcoder)),
      positions_(std::move(positions)) {
  for (const RowRange& range : positions_) count_ += range.count();
}

Result<TableRows> TableRows::open(const TableSource& source, const RowLayout& to,
                                  const Mxfp4Rule& rule,
                                  std::optional<std::vector<RowRange>> positions) {
  auto reader = TableReader::open(source);
  if (!reader) return std::move(reader).error();
  auto transcoder = Transcoder::create(source.layout, to, rule);
  if (!transcoder) return with_context(std::move(transcoder).error(), source.weight.path);
  if (!positions) positions = {{0, source.held_count()}};
  return TableRows(*std::move(reader), *std::move(transcoder), *std::move(positions));
}

Status TableRows::produce(std::uint64_t first, std::uint64_t count,
                          std::span<std::byte> out) const {
  for (const RowRange& range : positions_) {
    if (first >= range.count()) {
      first -= range.count();
      continue;
    }
    const std::uint64_t here = std::min(count, range.count() - first);
    const std::size_t bytes = here * layout().row_bytes();
    ENGRAM_TRY(produce_stretch(range.begin + first, here, out.first(bytes)));
    out = out.subspan(bytes);
    count -= here;
    first = 0;
    if (count == 0) break;
  }
  return {};
}

Status TableRows::produce_stretch(std::uint64_t position, std::uint64_t count,
                                  std::span<std::byte> out) const {
  const auto packed = buffers_->take(count * input_row_bytes());
  ENGRAM_TRY(reader_->read(position, count, packed.bytes()));
  const std::size_t good = transcoder_.run(packed.bytes().data(), count, out.data());
  if (good == count) return {};
  const TableSource& source = reader_->source();
  return make_error(Code::corrupt,
                    "{}: layer {}: row {} holds a NaN or an infinity; nothing is converted from it",
                    source.weight.path, source.layer_id, source.global_row(position + good));
}

Stream row_stream(TableRows rows, const std::vector<std::size_t>& tensors,
                  std::uint64_t rows_per_checkpoint) {
  const RowLayout& layout = rows.layout();
  Stream stream;
  stream.units = rows.count();
  if (tensors.size() == 1) {
    stream.parts = {{tensors[0], layout.row_bytes()}};
  } else {
    const std::array bytes = {layout.code_bytes(), layout.scale_bytes(), layout.bias_bytes()};
    for (std::size_t i = 0; i < tensors.size(); ++i) stream.parts.push_back({tensors[i], bytes[i]});
  }
  stream.input_bytes = rows.input_row_bytes();
  stream.units_per_checkpoint = std::max<std::uint64_t>(1, rows_per_checkpoint);
  stream.produce = [rows = std::move(rows)](std::uint64_t first, std::uint64_t count,
                                            std::span<std::byte> out) {
    return rows.produce(first, count, out);
  };
  return stream;
}

Stream page_stream(TableRows rows, std::uint64_t identity, std::size_t tensor,
                   std::uint64_t rows_per_checkpoint) {
  const std::uint64_t per_page = rows_per_page(rows.layout());
  Stream stream;
  stream.units = (rows.count() + per_page - 1) / per_page;
  stream.parts = {{tensor, kPageBytes}};
  stream.input_bytes = per_page * (rows.input_row_bytes() + rows.layout().row_bytes());
  stream.units_per_checkpoint = std::max<std::uint64_t>(1, rows_per_checkpoint / per_page);
  stream.produce = [rows = std::move(rows), identity, per_page](
                       std::uint64_t first, std::uint64_t count,
                       std::span<std::byte> out) -> Status {
    const std::size_t row_bytes = rows.layout().row_bytes();
    const std::uint64_t first_row = first * per_page;
    const std::uint64_t row_count = std::min(count * per_page, rows.count() - first_row);
    const auto borrowed = rows.buffers().take(row_count * row_bytes);
    const std::span<std::byte> packed = borrowed.bytes();
    ENGRAM_TRY(rows.produce(first_row, row_count, packed));
    for (std::uint64_t page = 0; page < count; ++page) {
      const std::uint64_t begin = page * per_page;
      const std::uint64_t end = std::min(begin + per_page, row_count);
      const auto bytes = out.subspan(page * kPageBytes, kPageBytes);
      const std::size_t used = (end - begin) * row_bytes;
      std::memcpy(bytes.data(), packed.data() + begin * row_bytes, used);
      std::memset(bytes.data() + used, 0, kPageBytes - used);
      seal_page(bytes, first + page, identity);
    }
    return {};
  };
  return stream;
}

Result<std::string> table_fingerprint(const TableSource& source) {
  const auto reader = TableReader::open(source);
  if (!reader) return reader.error();
  auto hash = Sha256::create();
  if (!hash) return std::move(hash).error();
  const std::string shape =
      fmt::format("{} {} {} {} {}\n", source.layer_id, source.row_count, source.held_count(),
                  row_format_name(source.layout.format), source.layout.head_dim);
  hash->update(std::as_bytes(std::span(shape)));
  const std::uint64_t rows = source.held_count();
  std::vector<std::byte> row(source.layout.row_bytes());
  for (std::uint64_t i = 0; i < std::min(kFingerprintRows, rows); ++i) {
    ENGRAM_TRY(reader->read(rows <= kFingerprintRows ? i : i * (rows / kFingerprintRows), 1, row));
    hash->update(row);
  }
  return hash->finish_hex();
}

}  // namespace engram
