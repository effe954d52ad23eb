// What the tiers share: their constructors and the check of a row id.
#include "store/tiers.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"
#include "os/memory.hpp"

namespace engram {

namespace {

// Left to the rest of the process when tables are judged to fit.
constexpr std::uint64_t kSpareBytes = std::uint64_t{256} << 20;

Result<std::unique_ptr<RowStore>> open_tier(const TableSource& source,
                                            const StoreOptions& options) {
  switch (options.tier) {
    case Tier::mmap:
      return open_mmap_store(source);
    case Tier::ram:
      return open_ram_store(source, options);
    case Tier::direct:
      return open_direct_store(source, options);
    case Tier::shared:
    case Tier::automatic:
      break;  // open_row_stores has resolved them
    case Tier::sharded:
      return make_error(Code::unsupported, "tier sharded needs a communicator: engram/mpi.hpp");
  }
  return make_error(Code::invalid_argument, "tier {} is not known", tier_name(options.tier));
}

}  // namespace

std::string_view tier_name(Tier tier) {
  switch (tier) {
    case Tier::mmap:
      return "mmap";
    case Tier::ram:
      return "ram";
    case Tier::direct:
      return "direct";
    case Tier::shared:
      return "shared";
    case Tier::automatic:
      return "auto";
    case Tier::sharded:
      return "sharded";
  }
  return "unknown";
}

bool memory_fits(std::uint64_t needed) {
  return range_fits(kSpareBytes, needed, os::available_memory_bytes());
}

Status check_memory(std::uint64_t needed, std::size_t table_count, std::string_view what) {
  if (memory_fits(needed)) return {};
  return make_error(Code::out_of_memory,
                    "{} needs {} bytes for {} tables (and {} to spare), {} are available; tier "
                    "direct serves the same rows from the files",
                    what, needed, table_count, kSpareBytes, os::available_memory_bytes());
}

Result<std::vector<std::unique_ptr<RowStore>>> open_row_stores(std::span<const TableSource> sources,
                                                               const StoreOptions& options) {
  if (options.tier == Tier::automatic) {
    const auto choice = choose_tier(sources, options);
    if (!choice) return choice.error();
    StoreOptions chosen = options;
    chosen.tier = choice->tier;
    return open_row_stores(sources, chosen);
  }
  if (options.tier != Tier::ram && !options.resident.empty()) {
    return make_error(Code::invalid_argument, "rows can only be resident with tier ram");
  }
  if (options.tier == Tier::shared) return open_shared_stores(sources, options.shared);
  if (options.tier == Tier::ram) {
    std::uint64_t needed = 0;
    for (const TableSource& source : sources) needed += ram_bytes(source, options);
    ENGRAM_TRY(check_memory(needed, sources.size(), "tier ram"));
  }
  std::vector<std::unique_ptr<RowStore>> stores;
  for (const TableSource& source : sources) {
    auto store = open_tier(source, options);
    if (!store) return std::move(store).error();
    stores.push_back(*std::move(store));
  }
  return stores;
}

Result<std::unique_ptr<RowStore>> open_row_store(const TableSource& source,
                                                 const StoreOptions& options) {
  auto stores = open_row_stores({&source, 1}, options);
  if (!stores) return std::move(stores).error();
  return std::move(stores->front());
}

Status check_views(std::span<const RowId> rows, std::span<const RowView> views) {
  if (rows.size() == views.size()) return {};
  return make_error(Code::invalid_argument, "fetch: {} rows, room for {}", rows.size(),
                    views.size());
}

Status check_rows(const TableSource& source, std::span<const RowId> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (source.position(rows[i])) continue;
    if (rows[i] >= 0 && static_cast<std::uint64_t>(rows[i]) < source.row_count) {
      return make_error(Code::out_of_range,
                        "layer {}: row {} of {}: {} is in the table, but not in this shard of it",
                        source.layer_id, i, rows.size(), rows[i]);
    }
    return make_error(Code::out_of_range, "layer {}: row {} of {}: expected 0..{}, found {}",
                      source.layer_id, i, rows.size(), source.row_count - 1, rows[i]);
  }
  return {};
}

}  // namespace engram
