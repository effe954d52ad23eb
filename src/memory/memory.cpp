// Keys or row ids to decoded rows: unique, fetch, decode, scatter.
#include "engram/memory.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "codec/row_codec.hpp"
#include "memory/lookup.hpp"

namespace engram {

// Sums of all calls since the memory was made, by any number of threads.
struct Memory::Counters {
  using Sum = std::atomic<std::uint64_t>;
  struct Order {
    Sum keys, unique, hits;
  };
  struct Table {
    explicit Table(std::size_t order_count) : orders(order_count) {}
    std::vector<Order> orders;
    Sum reads{0}, read_bytes{0}, wait_ns{0};
  };
  std::deque<Table> tables;
};

LookupWorkspace::LookupWorkspace() : impl_(std::make_unique<Impl>()) {}
LookupWorkspace::LookupWorkspace(LookupWorkspace&&) noexcept = default;
LookupWorkspace& LookupWorkspace::operator=(LookupWorkspace&&) noexcept = default;
LookupWorkspace::~LookupWorkspace() = default;
std::uint64_t LookupWorkspace::row_count() const { return impl_->row_count; }
std::uint64_t LookupWorkspace::unique_row_count() const { return impl_->rows.size(); }

Memory::Memory(Hasher hasher, std::vector<std::unique_ptr<RowStore>> stores, NanPolicy nan_policy)
    : hasher_(std::move(hasher)),
      stores_(std::move(stores)),
      nan_policy_(nan_policy),
      counters_(std::make_unique<Counters>()),
      tickets_(std::make_shared<Ticket::Pool>()) {
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    counters_->tables.emplace_back(hasher_.spec().config().orders());
  }
}

Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;
Memory::~Memory() = default;

Result<Memory> Memory::create(Hasher hasher, std::vector<std::unique_ptr<RowStore>> stores,
                              NanPolicy nan_policy, std::uint64_t cache_bytes) {
  const auto layers = hasher.spec().layers();
  if (layers.size() != stores.size()) {
    return make_error(Code::invalid_argument, "memory: expected {} stores, found {}", layers.size(),
                      stores.size());
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TableSource& source = stores[i]->source();
    if (source.layer_id == layers[i].layer_id && source.row_count >= layers[i].row_count &&
        source.layout.head_dim == stores[0]->source().layout.head_dim) {
      continue;
    }
    return make_error(Code::invalid_argument,
                      "memory: store {}: expected layer {} with {} rows or more and head_dim {}, "
                      "found layer {} with {} and {}",
                      i, layers[i].layer_id, layers[i].row_count,
                      stores[0]->source().layout.head_dim, source.layer_id, source.row_count,
                      source.layout.head_dim);
  }
  Memory memory(std::move(hasher), std::move(stores), nan_policy);
  if (cache_bytes == 0) return memory;
  std::size_t rows_bytes = 0;
  for (const auto& store : memory.stores_) {
    rows_bytes = std::max(rows_bytes, store->source().layout.row_bytes());
  }
  rows_bytes *= static_cast<std::size_t>(memory.hasher_.spec().config().heads);
  constexpr std::uint64_t kSmallest = 64;
  memory.cache_ = std::make_unique<NgramCache>(rows_bytes, cache_bytes);
  if (memory.cache_->capacity() >= kSmallest) return memory;
  return make_error(Code::invalid_argument,
                    "memory: a cache of {} bytes holds {} n-grams of {}; expected at least {}",
                    cache_bytes, memory.cache_->capacity(), rows_bytes, kSmallest);
}

TableStats Memory::stats(int table_index) const {
  const Counters::Table& table = counters_->tables[static_cast<std::size_t>(table_index)];
  TableStats stats{{}, table.reads, table.read_bytes, table.wait_ns};
  for (const auto& order : table.orders) {
    stats.orders.push_back({order.keys, order.unique, order.hits});
  }
  return stats;
}

void Memory::count(const Lookup& lookup) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  Counters::Table& table = counters_->tables[static_cast<std::size_t>(lookup.table_index)];
  for (std::size_t order = 0; order < lookup.orders.size(); ++order) {
    table.orders[order].keys.fetch_add(lookup.orders[order].keys, relaxed);
    table.orders[order].unique.fetch_add(lookup.orders[order].unique, relaxed);
    table.orders[order].hits.fetch_add(lookup.orders[order].hits, relaxed);
  }
  const ReadCounts& reads = lookup.fetch.counts();
  table.reads.fetch_add(reads.reads - lookup.reads.reads, relaxed);
  table.read_bytes.fetch_add(reads.bytes - lookup.reads.bytes, relaxed);
  table.wait_ns.fetch_add(lookup.wait_ns, relaxed);
}

std::uint64_t Memory::cache_capacity() const { return cache_ ? cache_->capacity() : 0; }

std::size_t Memory::output_bytes(int table_index, OutputFormat format) const {
  return engram::output_bytes(store(table_index).source().layout, format);
}

Status Memory::check_table(int table_index, std::size_t row_count) const {
  if (table_index < 0 || table_index >= table_count()) {
    return make_error(Code::out_of_range, "table index: expected 0..{}, found {}",
                      table_count() - 1, table_index);
  }
  if (row_count < std::numeric_limits<std::uint32_t>::max()) return {};
  return make_error(Code::invalid_argument, "lookup of {} rows: at most 2^32 - 2 in one call",
                    row_count);
}

// The output with its stride filled in.
Result<RowOutput> Memory::check_output(int table_index, std::size_t row_count,
                                       const RowOutput& output) const {
  const std::size_t row_bytes = output_bytes(table_index, output.format);
  const std::size_t stride = output.stride_bytes == 0 ? row_bytes : output.stride_bytes;
  const std::size_t alignment = output_alignment(output.format);
  const auto address = reinterpret_cast<std::uintptr_t>(output.bytes.data());
  if (stride < row_bytes || stride % alignment != 0 || address % alignment != 0) {
    return make_error(Code::invalid_argument,
                      "lookup: rows of {} bytes aligned to {}: found stride {} at address {:#x}",
                      row_bytes, alignment, stride, address);
  }
  const auto before_last = checked_multiply(row_count == 0 ? 0 : row_count - 1, stride);
  if (row_count != 0 &&
      (!before_last || !range_fits(*before_last, row_bytes, output.bytes.size()))) {
    return make_error(Code::invalid_argument,
                      "lookup: {} rows of {} bytes with stride {} do not fit {} bytes", row_count,
                      row_bytes, stride, output.bytes.size());
  }
  return RowOutput{output.format, output.bytes, stride};
}

Status Memory::lookup(int table_index, std::span<const Key> keys, const RowOutput& output,
                      LookupWorkspace& workspace) const {
  const std::size_t row_count =
      keys.size() * static_cast<std::size_t>(hasher_.spec().config().heads);
  ENGRAM_TRY(check_table(table_index, row_count));
  const auto checked = check_output(table_index, row_count, output);
  if (!checked) return checked.error();
  ENGRAM_TRY(plan(table_index, keys, *workspace.impl_));
  ENGRAM_TRY(begin(*workspace.impl_, Priority::now));
  return finish(*workspace.impl_, *checked);
}

Status Memory::lookup_rows(int table_index, std::span<const RowId> rows, const RowOutput& output,
                           LookupWorkspace& workspace) const {
  ENGRAM_TRY(check_table(table_index, rows.size()));
  const auto checked = check_output(table_index, rows.size(), output);
  if (!checked) return checked.error();
  Lookup& lookup = *workspace.impl_;
  lookup.reset(table_index, store(table_index), 1, rows.size());
  for (std::size_t unit = 0; unit < rows.size(); ++unit) {
    const auto identity = static_cast<std::uint64_t>(rows[unit]);
    const std::size_t first = lookup.first_seen.find_or_add(identity, 0, unit);
    if (first != unit) {
      lookup.repeats.push_back({unit, first});
      continue;
    }
    lookup.units.push_back(unit);
    lookup.rows.push_back(rows[unit]);
  }
  ENGRAM_TRY(begin(lookup, Priority::now));
  return finish(lookup, *checked);
}

}  // namespace engram
