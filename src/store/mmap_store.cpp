// Tier mmap: rows served in place from the checkpoint's own files.
#include <atomic>
#include <optional>
#include <vector>

#include "engram/table.hpp"

#include "checkpoint/table_reader.hpp"
#include "os/mapping.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

// One tensor of the table: a mapping of its file and where its rows begin. The same file may be
// mapped again for another tensor.
struct Part {
  std::optional<os::Mapping> mapping;
  const std::byte* rows = nullptr;  // null where the format has no such part
  std::size_t stride = 0;

  const std::byte* row(std::uint64_t position) const {
    return rows == nullptr ? nullptr : rows + position * stride;
  }
  // Lets the kernel begin to read a row, or what of it this mapping has.
  void will_need(std::uint64_t position) const {
    if (!mapping) return;
    const auto begin = static_cast<std::uint64_t>(row(position) - mapping->bytes().data());
    mapping->will_need(begin, stride);
  }
};

class MmapStore final : public RowStore {
 public:
  MmapStore(TableSource source, Part codes, Part scales, Part biases)
      : source_(std::move(source)),
        codes_(std::move(codes)),
        scales_(std::move(scales)),
        biases_(std::move(biases)) {}

  const TableSource& source() const override { return source_; }
  StoreReport report() const override { return {Tier::mmap, source_.held_bytes(), 0, 0, {}}; }

  Status begin(std::span<const RowId> rows, FetchScratch& /*scratch*/,
               Priority priority) const override {
    ENGRAM_TRY(check_rows(source_, rows));
    if (priority == Priority::now) return {};
    for (const RowId row : rows) {
      for (const Part* part : {&codes_, &scales_, &biases_}) {
        part->will_need(*source_.position(row));
      }
    }
    return {};
  }

  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& /*scratch*/) const override {
    ENGRAM_TRY(check_views(rows, views));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint64_t position = *source_.position(rows[i]);
      views[i] = {codes_.row(position), scales_.row(position), biases_.row(position)};
    }
    return {};
  }

 private:
  TableSource source_;
  Part codes_;
  Part scales_;
  Part biases_;
};

// Whole rows in checked pages. A page is checked by the first fetch that uses it.
class MappedPages final : public RowStore {
 public:
  MappedPages(TableSource source, Part pages)
      : source_(std::move(source)),
        pages_(std::move(pages)),
        per_page_(rows_per_page(source_.layout)),
        checked_((source_.weight.shape[0] + kWordBits - 1) / kWordBits) {}

  const TableSource& source() const override { return source_; }
  StoreReport report() const override { return {Tier::mmap, source_.held_bytes(), 0, 0, {}}; }

  Status begin(std::span<const RowId> rows, FetchScratch& /*scratch*/,
               Priority priority) const override {
    ENGRAM_TRY(check_rows(source_, rows));
    if (priority == Priority::now) return {};
    for (const RowId row : rows) pages_.will_need(*source_.position(row) / per_page_);
    return {};
  }

  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& /*scratch*/) const override {
    ENGRAM_TRY(check_views(rows, views));
    const RowSizes sizes = source_.layout.sizes();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint64_t position = *source_.position(rows[i]);
      const std::uint64_t page = position / per_page_;
      ENGRAM_TRY(check_once(page));
      views[i] =
          packed_view(sizes, pages_.row(page) + (position - page * per_page_) * sizes.total());
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kWordBits = 64;

  Status check_once(std::uint64_t page) const {
    std::atomic<std::uint64_t>& word = checked_[page / kWordBits];
    const std::uint64_t bit = std::uint64_t{1} << page % kWordBits;
    // Two threads may both check a page; the answer is the same.
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return {};
    ENGRAM_TRY(check_page({pages_.row(page), kPageBytes}, page, source_.page_identity,
                          source_.weight.path));
    word.fetch_or(bit, std::memory_order_relaxed);
    return {};
  }

  TableSource source_;
  Part pages_;
  std::uint64_t per_page_;
  mutable std::vector<std::atomic<std::uint64_t>> checked_;  // a bit for each page
};

Result<Part> map_part(const TensorExtent& tensor, std::size_t stride) {
  auto mapping = os::Mapping::open_random(tensor.files());
  if (!mapping) return std::move(mapping).error();
  ENGRAM_TRY(check_extent(tensor, mapping->bytes().size()));
  const std::byte* rows = mapping->bytes().data() + tensor.offset_bytes;
  return Part{*std::move(mapping), rows, stride};
}

Result<Part> map_part(const std::optional<TensorExtent>& tensor, std::size_t stride) {
  return tensor ? map_part(*tensor, stride) : Result<Part>(Part());
}

Result<std::unique_ptr<RowStore>> map_split(const TableSource& source) {
  auto codes = map_part(source.weight, source.layout.code_bytes());
  if (!codes) return std::move(codes).error();
  auto scales = map_part(source.scale, source.layout.scale_bytes());
  if (!scales) return std::move(scales).error();
  auto biases = map_part(source.bias, source.layout.bias_bytes());
  if (!biases) return std::move(biases).error();
  return std::unique_ptr<RowStore>(std::make_unique<MmapStore>(
      source, *std::move(codes), *std::move(scales), *std::move(biases)));
}

// Rows whose parts follow each other: the same mapping seen at two or three places.
Result<std::unique_ptr<RowStore>> map_interleaved(const TableSource& source) {
  const RowLayout& layout = source.layout;
  auto codes = map_part(source.weight, layout.row_bytes());
  if (!codes) return std::move(codes).error();
  Part scales;
  Part biases;
  if (layout.scale_bytes() != 0) {
    scales = {std::nullopt, codes->rows + layout.code_bytes(), layout.row_bytes()};
  }
  if (layout.bias_bytes() != 0) {
    biases = {std::nullopt, scales.rows + layout.scale_bytes(), layout.row_bytes()};
  }
  return std::unique_ptr<RowStore>(
      std::make_unique<MmapStore>(source, *std::move(codes), std::move(scales), std::move(biases)));
}

}  // namespace

Result<std::unique_ptr<RowStore>> open_mmap_store(const TableSource& source) {
  switch (source.placement) {
    case RowPlacement::split:
      return map_split(source);
    case RowPlacement::interleaved:
      return map_interleaved(source);
    case RowPlacement::paged: {
      auto pages = map_part(source.weight, kPageBytes);
      if (!pages) return std::move(pages).error();
      return std::unique_ptr<RowStore>(std::make_unique<MappedPages>(source, *std::move(pages)));
    }
  }
  return std::unique_ptr<RowStore>();
}

}  // namespace engram
