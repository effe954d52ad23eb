// What the tiers share: their constructors and the check of a row id.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engram/row_store.hpp"

namespace engram {

Result<std::unique_ptr<RowStore>> open_mmap_store(const TableSource& source);
Result<std::unique_ptr<RowStore>> open_ram_store(const TableSource& source,
                                                 const StoreOptions& options);
Result<std::unique_ptr<RowStore>> open_direct_store(const TableSource& source,
                                                    const StoreOptions& options);

Result<std::vector<std::unique_ptr<RowStore>>> open_shared_stores(
    std::span<const TableSource> sources, const SharedOptions& options);

// Whether so many bytes more fit the machine and its cgroup; and the error that says they do not.
bool memory_fits(std::uint64_t needed);
Status check_memory(std::uint64_t needed, std::size_t table_count, std::string_view what);
// Whether rows are short enough for tier direct.
bool direct_can_serve(const RowLayout& layout);
// Memory that tier ram takes for a table.
std::uint64_t ram_bytes(const TableSource& source, const StoreOptions& options);

// Every row inside the table and held by the store.
Status check_rows(const TableSource& source, std::span<const RowId> rows);
// As many views as rows.
Status check_views(std::span<const RowId> rows, std::span<const RowView> views);

}  // namespace engram
