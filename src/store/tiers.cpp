// What the tiers share: their constructors and the check of a row id.
#include "store/tiers.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"

namespace engram {

Result<std::unique_ptr<RowStore>> open_row_store(const TableSource& source,
                                                 const StoreOptions& options) {
  switch (options.tier) {
    case Tier::mmap:
      return open_mmap_store(source);
    case Tier::ram:
      return open_ram_store(source, options);
  }
  return make_error(Code::invalid_argument, "tier {} does not exist",
                    static_cast<int>(options.tier));
}

Status check_fetch(const TableSource& source, std::span<const RowId> rows,
                   std::span<const RowView> views) {
  if (rows.size() != views.size()) {
    return make_error(Code::invalid_argument, "fetch: {} rows, room for {}", rows.size(),
                      views.size());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= 0 && static_cast<std::uint64_t>(rows[i]) < source.row_count) continue;
    return make_error(Code::out_of_range, "layer {}: row {} of {}: expected 0..{}, found {}",
                      source.layer_id, i, rows.size(), source.row_count - 1, rows[i]);
  }
  return {};
}

Status check_extent(const TensorExtent& tensor, std::uint64_t file_bytes) {
  if (file_bytes == tensor.file_bytes &&
      range_fits(tensor.offset_bytes, tensor.size_bytes, file_bytes)) {
    return {};
  }
  return make_error(Code::corrupt,
                    "{}: changed since its header was read: expected {} bytes, found {}",
                    tensor.path, tensor.file_bytes, file_bytes);
}

}  // namespace engram
