// Tier mmap: rows served in place from the checkpoint's own files.
#include <optional>

#include "os/memory.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

// One tensor of the table: a mapping of its file and where its rows begin. The same file may be
// mapped again for another tensor.
struct Part {
  std::optional<os::Mapping> mapping;
  const std::byte* rows = nullptr;  // null where the format has no such part
  std::size_t row_bytes = 0;

  const std::byte* row(std::size_t id) const {
    return rows == nullptr ? nullptr : rows + id * row_bytes;
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

  StoreReport report() const override {
    return {Tier::mmap, source_.row_count * source_.layout.row_bytes(), 0};
  }

  Status fetch(std::span<const RowId> rows, std::span<RowView> views) const override {
    ENGRAM_TRY(check_fetch(source_, rows, views));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]);
      views[i] = {codes_.row(row), scales_.row(row), biases_.row(row)};
    }
    return {};
  }

 private:
  TableSource source_;
  Part codes_;
  Part scales_;
  Part biases_;
};

Result<Part> map_part(const TensorExtent& tensor, std::size_t row_bytes) {
  auto mapping = os::Mapping::open_random(tensor.path);
  if (!mapping) return std::move(mapping).error();
  ENGRAM_TRY(check_extent(tensor, mapping->bytes().size()));
  const std::byte* rows = mapping->bytes().data() + tensor.offset_bytes;
  return Part{*std::move(mapping), rows, row_bytes};
}

Result<Part> map_part(const std::optional<TensorExtent>& tensor, std::size_t row_bytes) {
  return tensor ? map_part(*tensor, row_bytes) : Result<Part>(Part());
}

}  // namespace

Result<std::unique_ptr<RowStore>> open_mmap_store(const TableSource& source) {
  auto codes = map_part(source.weight, source.layout.code_bytes());
  if (!codes) return std::move(codes).error();
  auto scales = map_part(source.scale, source.layout.scale_bytes());
  if (!scales) return std::move(scales).error();
  auto biases = map_part(source.bias, source.layout.bias_bytes());
  if (!biases) return std::move(biases).error();
  return std::unique_ptr<RowStore>(std::make_unique<MmapStore>(
      source, *std::move(codes), *std::move(scales), *std::move(biases)));
}

}  // namespace engram
