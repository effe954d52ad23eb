// What both ways of exchanging rows have in common: one lookup, this rank's rows, the interface.
#include "row_exchange.hpp"

#include <string>

namespace engram::mpi {

void OwnRows::plan(std::size_t table, std::span<const RowId> rows, Priority priority, Part& part) {
  const auto world = static_cast<std::size_t>(channel->world());
  part.table = table;
  part.wanted.resize(world);
  part.places.resize(world);
  for (auto& wanted : part.wanted) wanted.clear();
  for (auto& places : part.places) places.clear();
  part.rows.resize(rows.size() * layout(table).row_bytes());
  part.sent = false;
  part.over = false;
  part.status = {};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto owner = maps[table].owner(rows[i]);
    if (!owner) {
      part.status =
          Error{Code::out_of_range, 0, "row " + std::to_string(rows[i]) + " is outside the table"};
      part.wanted.assign(world, {});
      part.places.assign(world, {});
      return;
    }
    part.wanted[static_cast<std::size_t>(owner->rank)].push_back(rows[i]);
    part.places[static_cast<std::size_t>(owner->rank)].push_back(i);
  }
  const auto& mine = part.wanted[rank()];
  if (!mine.empty()) part.status = stores[table]->begin(mine, part.own, priority);
}

Status OwnRows::take_own(Part& part) const {
  const auto& mine = part.wanted[rank()];
  if (mine.empty()) return {};
  part.own_views.resize(mine.size());
  ENGRAM_TRY(stores[part.table]->finish(mine, part.own_views, part.own));
  const RowSizes sizes = layout(part.table).sizes();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (i + kPrefetchRows < mine.size()) prefetch_row(sizes, part.own_views[i + kPrefetchRows]);
    pack_row(sizes, part.own_views[i], part.rows.data() + part.places[rank()][i] * sizes.total());
  }
  return {};
}

}  // namespace engram::mpi
