// Tier mmap: rows served in place from the checkpoint's own files.
#include <optional>

#include "os/memory.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

class MmapStore final : public RowStore {
 public:
  MmapStore(TableSource source, os::Mapping weight, std::optional<os::Mapping> scale)
      : source_(std::move(source)),
        layout_(source_.layout),
        weight_map_(std::move(weight)),
        scale_map_(std::move(scale)),
        codes_(weight_map_.bytes().data() + source_.weight.offset_bytes),
        scales_(scale_map_ ? scale_map_->bytes().data() + source_.scale->offset_bytes : nullptr) {}

  const TableSource& source() const override { return source_; }

  StoreReport report() const override {
    return {Tier::mmap, source_.row_count * layout_.row_bytes(), 0};
  }

  Status fetch(std::span<const RowId> rows, std::span<RowView> views) const override {
    ENGRAM_TRY(check_fetch(source_, rows, views));
    const std::size_t code_bytes = layout_.code_bytes();
    const std::size_t scale_bytes = layout_.scale_bytes();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]);
      views[i] = {codes_ + row * code_bytes,
                  scales_ != nullptr ? scales_ + row * scale_bytes : nullptr};
    }
    return {};
  }

 private:
  TableSource source_;
  RowLayout layout_;
  os::Mapping weight_map_;
  std::optional<os::Mapping> scale_map_;  // the same file again, or another shard
  const std::byte* codes_;
  const std::byte* scales_;
};

Result<os::Mapping> map_tensor(const TensorExtent& tensor) {
  auto mapping = os::Mapping::open_random(tensor.path);
  if (!mapping) return mapping;
  ENGRAM_TRY(check_extent(tensor, mapping->bytes().size()));
  return mapping;
}

}  // namespace

Result<std::unique_ptr<RowStore>> open_mmap_store(const TableSource& source) {
  auto weight = map_tensor(source.weight);
  if (!weight) return std::move(weight).error();
  std::optional<os::Mapping> scale;
  if (source.scale) {
    auto mapping = map_tensor(*source.scale);
    if (!mapping) return std::move(mapping).error();
    scale = *std::move(mapping);
  }
  return std::unique_ptr<RowStore>(
      std::make_unique<MmapStore>(source, *std::move(weight), std::move(scale)));
}

}  // namespace engram
