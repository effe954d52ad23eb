// Keys or row ids to decoded rows: unique, fetch, decode, scatter.
#include "engram/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "codec/row_codec.hpp"
#include "memory/first_seen.hpp"
#include "memory/ngram_cache.hpp"

namespace engram {
namespace {

// Rows copied, then decoded, at once. Copying first and decoding after is what makes the fetch
// memory-bound: decode in the same loop fills the reorder buffer with arithmetic, so only a row or
// two of misses overlap (three times slower; docs/BENCHMARKS.md). 48 rows are one token of V4.1.
constexpr std::size_t kBlockRows = 48;
// Rows ahead of the copy whose lines are requested: 16 rows of 5 lines saturate a core's misses.
constexpr std::size_t kPrefetchRows = 16;
constexpr std::size_t kLineBytes = 64;

// Asks for every line of [begin, begin + bytes).
inline void prefetch(const std::byte* begin, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / kLineBytes;
  const auto last = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1) / kLineBytes;
  for (std::uintptr_t line = first; line <= last; ++line) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a line number is an address.
    __builtin_prefetch(reinterpret_cast<const void*>(line * kLineBytes));
  }
}

inline void prefetch_row(const RowView& view, const RowLayout& layout) {
  prefetch(view.codes, layout.code_bytes());
  if (view.scales != nullptr) prefetch(view.scales, layout.scale_bytes());
  if (view.biases != nullptr) prefetch(view.biases, layout.bias_bytes());
}

// views [count] -> packed [count, row_bytes]
void copy_rows(const RowLayout& layout, std::span<const RowView> views, std::size_t begin,
               std::size_t count, std::byte* packed) {
  const std::size_t code_bytes = layout.code_bytes();
  const std::size_t scale_bytes = layout.scale_bytes();
  const std::size_t bias_bytes = layout.bias_bytes();
  for (std::size_t i = begin; i < begin + count; ++i) {
    if (i + kPrefetchRows < views.size()) prefetch_row(views[i + kPrefetchRows], layout);
    std::memcpy(packed, views[i].codes, code_bytes);
    packed += code_bytes;
    if (scale_bytes != 0) std::memcpy(packed, views[i].scales, scale_bytes);
    packed += scale_bytes;
    if (bias_bytes != 0) std::memcpy(packed, views[i].biases, bias_bytes);
    packed += bias_bytes;
  }
}

}  // namespace

// A run of `rows_per_unit` output rows that is read once and copied wherever it repeats: a key's
// heads, or a single row.
struct LookupWorkspace::Impl {
  struct Repeat {
    std::size_t unit;
    std::size_t first_unit;  // equal to it, and decoded
  };
  std::vector<RowId> all_rows;      // [units * rows_per_unit], in output order
  std::vector<RowId> rows;          // those to read
  std::vector<std::byte*> outputs;  // where each of them goes
  std::vector<RowView> views;
  std::vector<Repeat> repeats;
  std::vector<std::byte> packed;  // [kBlockRows, row_bytes]
  FirstSeen first_seen;
  FetchScratch fetch;
  // With a cache: distinct keys in the order of `rows`, the rows it had, and those it had not.
  std::vector<NgramCache::Id> ids;
  std::vector<std::byte> cached;  // [ids, rows of a key]
  std::vector<std::size_t> missing;
  std::vector<RowId> missing_rows;
  std::vector<RowView> missing_views;
  std::vector<OrderStats> counted;  // [orders] of this call
  std::uint64_t row_count = 0;
};

// A checked call.
struct Memory::Request {
  const RowStore* store;
  RowLayout layout;
  RowOutput output;  // with its stride filled in
  std::size_t rows_per_unit = 1;
  std::size_t row_bytes_out = 0;

  std::byte* unit_output(std::size_t unit) const {
    return output.bytes.data() + unit * rows_per_unit * output.stride_bytes;
  }
};

// Statistics of all calls: [tables, orders, 3], as OrderStats has them.
struct Memory::Counters {
  explicit Counters(std::size_t count) : values(count) {}
  std::vector<std::atomic<std::uint64_t>> values;
};

LookupWorkspace::LookupWorkspace() : impl_(std::make_unique<Impl>()) {}
LookupWorkspace::LookupWorkspace(LookupWorkspace&&) noexcept = default;
LookupWorkspace& LookupWorkspace::operator=(LookupWorkspace&&) noexcept = default;
LookupWorkspace::~LookupWorkspace() = default;
std::uint64_t LookupWorkspace::row_count() const { return impl_->row_count; }
std::uint64_t LookupWorkspace::unique_row_count() const { return impl_->rows.size(); }

Memory::Memory(Hasher hasher, std::vector<std::unique_ptr<RowStore>> stores, NanPolicy nan_policy)
    : hasher_(std::move(hasher)), stores_(std::move(stores)), nan_policy_(nan_policy) {
  counters_ = std::make_unique<Counters>(
      3 * stores_.size() * static_cast<std::size_t>(hasher_.spec().config().orders()));
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

std::vector<OrderStats> Memory::stats(int table_index) const {
  const auto orders = static_cast<std::size_t>(hasher_.spec().config().orders());
  std::vector<OrderStats> result(orders);
  for (std::size_t order = 0; order < orders; ++order) {
    const auto* values =
        &counters_->values[3 * (static_cast<std::size_t>(table_index) * orders + order)];
    result[order] = {values[0].load(), values[1].load(), values[2].load()};
  }
  return result;
}

std::uint64_t Memory::cache_capacity() const { return cache_ ? cache_->capacity() : 0; }

std::size_t Memory::output_bytes(int table_index, OutputFormat format) const {
  return engram::output_bytes(store(table_index).source().layout, format);
}

Result<Memory::Request> Memory::check(int table_index, std::size_t row_count,
                                      const RowOutput& output) const {
  if (table_index < 0 || table_index >= table_count()) {
    return make_error(Code::out_of_range, "table index: expected 0..{}, found {}",
                      table_count() - 1, table_index);
  }
  if (row_count >= std::numeric_limits<std::uint32_t>::max()) {
    return make_error(Code::invalid_argument, "lookup of {} rows: at most 2^32 - 2 in one call",
                      row_count);
  }
  Request request{stores_[table_index].get(), stores_[table_index]->source().layout, output};
  request.row_bytes_out = engram::output_bytes(request.layout, output.format);
  if (output.stride_bytes == 0) request.output.stride_bytes = request.row_bytes_out;
  const std::size_t stride = request.output.stride_bytes;
  const std::size_t alignment = output_alignment(output.format);
  const auto address = reinterpret_cast<std::uintptr_t>(output.bytes.data());
  if (stride < request.row_bytes_out || stride % alignment != 0 || address % alignment != 0) {
    return make_error(Code::invalid_argument,
                      "lookup: rows of {} bytes aligned to {}: found stride {} at address {:#x}",
                      request.row_bytes_out, alignment, stride, address);
  }
  const auto before_last = checked_multiply(row_count == 0 ? 0 : row_count - 1, stride);
  if (row_count != 0 &&
      (!before_last || !range_fits(*before_last, request.row_bytes_out, output.bytes.size()))) {
    return make_error(Code::invalid_argument,
                      "lookup: {} rows of {} bytes with stride {} do not fit {} bytes", row_count,
                      request.row_bytes_out, stride, output.bytes.size());
  }
  return request;
}

Status Memory::lookup(int table_index, std::span<const Key> keys, const RowOutput& output,
                      LookupWorkspace& workspace) const {
  const auto heads = static_cast<std::size_t>(hasher_.spec().config().heads);
  const auto orders = static_cast<std::size_t>(hasher_.spec().config().orders());
  auto request = check(table_index, keys.size() * heads, output);
  if (!request) return std::move(request).error();
  request->rows_per_unit = heads;
  LookupWorkspace::Impl& scratch = *workspace.impl_;
  scratch.all_rows.resize(keys.size() * heads);
  ENGRAM_TRY(hasher_.rows(table_index, keys, scratch.all_rows));
  scratch.rows.clear();
  scratch.outputs.clear();
  scratch.repeats.clear();
  scratch.ids.clear();
  scratch.counted.assign(orders, {});
  scratch.first_seen.reset(keys.size());
  for (std::size_t unit = 0; unit < keys.size(); ++unit) {
    const std::size_t order = unit % orders;
    const std::size_t first = scratch.first_seen.find_or_add(keys[unit], order, unit);
    ++scratch.counted[order].keys;
    if (first != unit) {
      scratch.repeats.push_back({unit, first});
      continue;
    }
    ++scratch.counted[order].unique;
    if (cache_ != nullptr) {
      scratch.ids.push_back(
          {keys[unit], static_cast<std::uint32_t>(table_index), static_cast<std::uint32_t>(order)});
    }
    std::byte* out = request->unit_output(unit);
    for (std::size_t head = 0; head < heads; ++head, out += request->output.stride_bytes) {
      scratch.rows.push_back(scratch.all_rows[unit * heads + head]);
      scratch.outputs.push_back(out);
    }
  }
  scratch.row_count = keys.size() * heads;
  const Status status = run(*request, scratch);
  if (status) count(table_index, scratch);
  return status;
}

void Memory::count(int table_index, LookupWorkspace::Impl& scratch) const {
  const std::size_t orders = scratch.counted.size();
  for (std::size_t order = 0; order < orders; ++order) {
    auto* values = &counters_->values[3 * (static_cast<std::size_t>(table_index) * orders + order)];
    const OrderStats& counted = scratch.counted[order];
    values[0].fetch_add(counted.keys, std::memory_order_relaxed);
    values[1].fetch_add(counted.unique, std::memory_order_relaxed);
    values[2].fetch_add(counted.hits, std::memory_order_relaxed);
  }
}

Status Memory::lookup_rows(int table_index, std::span<const RowId> rows, const RowOutput& output,
                           LookupWorkspace& workspace) const {
  const auto request = check(table_index, rows.size(), output);
  if (!request) return request.error();
  LookupWorkspace::Impl& scratch = *workspace.impl_;
  scratch.rows.clear();
  scratch.outputs.clear();
  scratch.repeats.clear();
  scratch.first_seen.reset(rows.size());
  for (std::size_t unit = 0; unit < rows.size(); ++unit) {
    const auto identity = static_cast<std::uint64_t>(rows[unit]);
    const std::size_t first = scratch.first_seen.find_or_add(identity, 0, unit);
    if (first != unit) {
      scratch.repeats.push_back({unit, first});
      continue;
    }
    scratch.rows.push_back(rows[unit]);
    scratch.outputs.push_back(request->unit_output(unit));
  }
  scratch.row_count = rows.size();
  scratch.ids.clear();  // rows by id have no key to be cached under
  return run(*request, scratch);
}

Status Memory::run(const Request& request, LookupWorkspace::Impl& scratch) const {
  scratch.views.resize(scratch.rows.size());
  if (!scratch.ids.empty()) {
    ENGRAM_TRY(fetch_missing(request, scratch));
  } else {
    ENGRAM_TRY(request.store->fetch(scratch.rows, scratch.views, scratch.fetch));
  }
  ENGRAM_TRY(decode(request, scratch));
  for (const auto& repeat : scratch.repeats) {
    const std::byte* from = request.unit_output(repeat.first_unit);
    std::byte* to = request.unit_output(repeat.unit);
    for (std::size_t row = 0; row < request.rows_per_unit; ++row) {
      const std::size_t at = row * request.output.stride_bytes;
      std::memcpy(to + at, from + at, request.row_bytes_out);
    }
  }
  return {};
}

// Views of keys that the cache has point into scratch.cached; the others' rows are fetched, and
// offered to it.
Status Memory::fetch_missing(const Request& request, LookupWorkspace::Impl& scratch) const {
  const RowLayout& layout = request.layout;
  const std::size_t heads = request.rows_per_unit;
  const std::size_t key_bytes = heads * layout.row_bytes();
  scratch.cached.resize(scratch.ids.size() * key_bytes);
  scratch.missing.clear();
  scratch.missing_rows.clear();
  for (std::size_t i = 0; i < scratch.ids.size(); ++i) {
    const auto rows = std::span(scratch.cached).subspan(i * key_bytes, key_bytes);
    if (cache_->find(scratch.ids[i], rows)) {
      ++scratch.counted[scratch.ids[i].order].hits;
      for (std::size_t head = 0; head < heads; ++head) {
        scratch.views[i * heads + head] =
            packed_view(layout, rows.data() + head * layout.row_bytes());
      }
      continue;
    }
    scratch.missing.push_back(i);
    for (std::size_t head = 0; head < heads; ++head) {
      scratch.missing_rows.push_back(scratch.rows[i * heads + head]);
    }
  }
  scratch.missing_views.resize(scratch.missing_rows.size());
  ENGRAM_TRY(request.store->fetch(scratch.missing_rows, scratch.missing_views, scratch.fetch));
  for (std::size_t m = 0; m < scratch.missing.size(); ++m) {
    const std::size_t i = scratch.missing[m];
    const auto views = std::span(scratch.missing_views).subspan(m * heads, heads);
    std::copy(views.begin(), views.end(),
              scratch.views.begin() + static_cast<std::ptrdiff_t>(i * heads));
    const auto rows = std::span(scratch.cached).subspan(i * key_bytes, key_bytes);
    copy_rows(layout, views, 0, heads, rows.data());
    cache_->offer(scratch.ids[i], rows);
  }
  return {};
}

Status Memory::decode(const Request& request, LookupWorkspace::Impl& scratch) const {
  const RowLayout& layout = request.layout;
  scratch.packed.resize(kBlockRows * layout.row_bytes());
  const std::span<const RowView> views = scratch.views;
  for (std::size_t i = 0; i < std::min(kPrefetchRows, views.size()); ++i) {
    prefetch_row(views[i], layout);
  }
  for (std::size_t begin = 0; begin < views.size(); begin += kBlockRows) {
    const std::size_t count = std::min(kBlockRows, views.size() - begin);
    copy_rows(layout, views, begin, count, scratch.packed.data());
    const std::size_t bad = decode_rows(layout, request.output.format, scratch.packed.data(),
                                        std::span(scratch.outputs).subspan(begin, count));
    if (bad < count && nan_policy_ == NanPolicy::reject) {
      return make_error(Code::corrupt,
                        "layer {}: row {} holds a NaN or an infinity (policy reject)",
                        request.store->source().layer_id, scratch.rows[begin + bad]);
    }
  }
  return {};
}

}  // namespace engram
