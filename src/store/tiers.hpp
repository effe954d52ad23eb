// What the tiers share: their constructors and the check of a row id.
#pragma once

#include <memory>

#include "engram/row_store.hpp"

namespace engram {

Result<std::unique_ptr<RowStore>> open_mmap_store(const TableSource& source);
Result<std::unique_ptr<RowStore>> open_ram_store(const TableSource& source,
                                                 const StoreOptions& options);
Result<std::unique_ptr<RowStore>> open_direct_store(const TableSource& source,
                                                    const StoreOptions& options);

// Whether rows are short enough for tier direct.
bool direct_can_serve(const RowLayout& layout);
// Memory that tier ram takes for a table.
std::uint64_t ram_bytes(const TableSource& source, const StoreOptions& options);

// Every row inside the table and held by the store.
Status check_rows(const TableSource& source, std::span<const RowId> rows);
// As many views as rows.
Status check_views(std::span<const RowId> rows, std::span<const RowView> views);

}  // namespace engram
