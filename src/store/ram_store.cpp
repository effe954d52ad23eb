// Tier ram: a private copy of the table, codes and scales interleaved, in huge pages.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/parallel.hpp"
#include "os/file.hpp"
#include "os/memory.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

// Rows read at once: about 8 MiB, long enough for sequential speed, short enough for progress.
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;
class RamStore final : public RowStore {
 public:
  RamStore(TableSource source, os::HugeBuffer rows, std::uint64_t huge_bytes)
      : source_(std::move(source)),
        layout_(source_.layout),
        rows_(std::move(rows)),
        huge_bytes_(huge_bytes) {}

  const TableSource& source() const override { return source_; }

  StoreReport report() const override {
    return {Tier::ram, source_.row_count * layout_.row_bytes(), huge_bytes_};
  }

  Status fetch(std::span<const RowId> rows, std::span<RowView> views) const override {
    ENGRAM_TRY(check_fetch(source_, rows, views));
    const std::byte* base = rows_.bytes().data();
    const std::size_t row_bytes = layout_.row_bytes();
    const std::size_t scales_at = layout_.code_bytes();
    const std::size_t biases_at = scales_at + layout_.scale_bytes();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::byte* row = base + static_cast<std::size_t>(rows[i]) * row_bytes;
      views[i] = {row, layout_.scale_bytes() != 0 ? row + scales_at : nullptr,
                  layout_.bias_bytes() != 0 ? row + biases_at : nullptr};
    }
    return {};
  }

 private:
  TableSource source_;
  RowLayout layout_;
  os::HugeBuffer rows_;  // [row_count, row_bytes]
  std::uint64_t huge_bytes_;
};

// One tensor of the table and the bytes it gives to each row.
struct Part {
  std::unique_ptr<os::ReadableFile> file;
  std::uint64_t offset_bytes;
  std::size_t row_bytes;
};

// Reads chunks of rows and packs them into the destination.
class Loader {
 public:
  // parts: codes, then scales and biases where the format has them.
  Loader(const TableSource& source, std::span<const Part> parts, std::span<std::byte> destination)
      : source_(source),
        layout_(source.layout),
        parts_(parts),
        destination_(destination),
        chunk_rows_(std::max<std::uint64_t>(1, kChunkBytes / layout_.row_bytes())) {}

  Status load(const StoreOptions& options) {
    const std::size_t chunks = (source_.row_count + chunk_rows_ - 1) / chunk_rows_;
    const std::uint64_t total = source_.row_count * layout_.row_bytes();
    const std::thread::id caller = std::this_thread::get_id();
    return parallel_for(chunks, options.threads, [&](std::size_t chunk) -> Status {
      const std::uint64_t first = chunk * chunk_rows_;
      const std::uint64_t count = std::min(chunk_rows_, source_.row_count - first);
      ENGRAM_TRY(load_chunk(first, count));
      const std::uint64_t done =
          loaded_.fetch_add(count * layout_.row_bytes()) + count * layout_.row_bytes();
      if (options.progress && std::this_thread::get_id() == caller) options.progress(done, total);
      return {};
    });
  }

 private:
  Status load_chunk(std::uint64_t first, std::uint64_t count) {
    const std::size_t row_bytes = layout_.row_bytes();
    std::byte* out = destination_.data() + first * row_bytes;
    std::vector<std::byte> buffer;
    for (const Part& part : parts_) {
      buffer.resize(count * part.row_bytes);
      ENGRAM_TRY(part.file->read_at(part.offset_bytes + first * part.row_bytes, buffer));
      for (std::uint64_t row = 0; row < count; ++row) {
        std::memcpy(out + row * row_bytes, buffer.data() + row * part.row_bytes, part.row_bytes);
      }
      out += part.row_bytes;
    }
    return {};
  }

  const TableSource& source_;
  RowLayout layout_;
  std::span<const Part> parts_;
  std::span<std::byte> destination_;
  std::uint64_t chunk_rows_;
  std::atomic<std::uint64_t> loaded_{0};
};

Result<Part> open_part(const TensorExtent& tensor, std::size_t row_bytes) {
  auto file = os::open_file(tensor.path);
  if (!file) return std::move(file).error();
  ENGRAM_TRY(check_extent(tensor, (*file)->size_bytes()));
  return Part{*std::move(file), tensor.offset_bytes, row_bytes};
}

Result<std::vector<Part>> open_parts(const TableSource& source) {
  std::vector<Part> parts;
  const auto add = [&](const TensorExtent& tensor, std::size_t row_bytes) -> Status {
    auto part = open_part(tensor, row_bytes);
    if (!part) return std::move(part).error();
    parts.push_back(*std::move(part));
    return {};
  };
  ENGRAM_TRY(add(source.weight, source.layout.code_bytes()));
  if (source.scale) ENGRAM_TRY(add(*source.scale, source.layout.scale_bytes()));
  if (source.bias) ENGRAM_TRY(add(*source.bias, source.layout.bias_bytes()));
  return parts;
}

}  // namespace

Result<std::unique_ptr<RowStore>> open_ram_store(const TableSource& source,
                                                 const StoreOptions& options) {
  const auto parts = open_parts(source);
  if (!parts) return parts.error();
  const std::uint64_t table_bytes = source.row_count * source.layout.row_bytes();
  auto buffer = os::HugeBuffer::allocate(table_bytes);
  if (!buffer) return std::move(buffer).error();
  Loader loader(source, *parts, buffer->bytes());
  ENGRAM_TRY(loader.load(options));
  const std::uint64_t huge_bytes = std::min(table_bytes, buffer->huge_bytes());
  return std::unique_ptr<RowStore>(
      std::make_unique<RamStore>(source, *std::move(buffer), huge_bytes));
}

}  // namespace engram
