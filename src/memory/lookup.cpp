// A lookup, step by step: unique, cached, fetched, decoded, repeated.
#include "memory/lookup.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.hpp"
#include "codec/row_codec.hpp"

namespace engram {
namespace {

// Rows copied, then decoded, at once. Copying first and decoding after is what makes the fetch
// memory-bound: decode in the same loop fills the reorder buffer with arithmetic, so only a row or
// two of misses overlap (three times slower; docs/BENCHMARKS.md). 48 rows are one token of V4.1.
constexpr std::size_t kBlockRows = 48;
// Rows ahead of the copy whose lines are requested: 16 rows of 5 lines saturate a core's misses.
constexpr std::size_t kPrefetchRows = 16;
// N-grams ahead of the one that the cache is asked for.
constexpr std::size_t kPrefetchNgrams = 4;
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

// Brings rows together, however their parts lie.
class RowCopier {
 public:
  explicit RowCopier(const RowLayout& layout) : sizes_(layout.sizes()), total_(sizes_.total()) {}
  std::size_t row_bytes() const { return total_; }

  void prefetch_row(const RowView& view) const {
    if (in_one_piece(view)) return prefetch(view.codes, total_);
    prefetch(view.codes, sizes_.codes);
    if (view.scales != nullptr) prefetch(view.scales, sizes_.scales);
    if (view.biases != nullptr) prefetch(view.biases, sizes_.biases);
  }

  void copy(const RowView& view, std::byte* out) const {
    std::memcpy(out, view.codes, sizes_.codes);
    if (sizes_.scales != 0) std::memcpy(out + sizes_.codes, view.scales, sizes_.scales);
    if (sizes_.biases != 0) {
      std::memcpy(out + sizes_.codes + sizes_.scales, view.biases, sizes_.biases);
    }
  }

 private:
  bool in_one_piece(const RowView& view) const {
    const RowView packed = packed_view(sizes_, view.codes);
    return view.scales == packed.scales && view.biases == packed.biases;
  }

  RowSizes sizes_;
  std::size_t total_;
};

// Adds the time until it is destroyed.
class Stopwatch {
 public:
  explicit Stopwatch(std::uint64_t& total_ns) : total_ns_(total_ns) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    const auto passed = std::chrono::steady_clock::now() - begin_;
    total_ns_ += static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
  }

 private:
  std::uint64_t& total_ns_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Where rows go in the output, one after another as the plan has them.
class OutputRows {
 public:
  OutputRows(const RowOutput& output, std::span<const std::size_t> units, std::size_t rows_per_unit)
      : output_(output), units_(units), rows_per_unit_(rows_per_unit) {}

  std::byte* next() {
    const std::size_t row = units_[unit_] * rows_per_unit_ + head_;
    if (++head_ == rows_per_unit_) {
      head_ = 0;
      ++unit_;
    }
    return output_.bytes.data() + row * output_.stride_bytes;
  }

 private:
  const RowOutput& output_;
  std::span<const std::size_t> units_;
  std::size_t rows_per_unit_;
  std::size_t unit_ = 0;
  std::size_t head_ = 0;
};

}  // namespace

void pack_rows(const RowLayout& layout, std::span<const RowView> views, std::byte* packed) {
  const RowCopier copier(layout);
  for (const RowView& view : views) {
    copier.copy(view, packed);
    packed += copier.row_bytes();
  }
}

void LookupWorkspace::Impl::reset(int table, const RowStore& from, std::size_t unit_rows,
                                  std::size_t unit_count) {
  table_index = table;
  store = &from;
  rows_per_unit = unit_rows;
  row_count = unit_count * unit_rows;
  units.clear();
  rows.clear();
  repeats.clear();
  ids.clear();
  orders.clear();
  wait_ns = 0;
  reads = fetch.counts();
  first_seen.reset(unit_count);
}

Status Memory::plan(int table_index, std::span<const Key> keys, Lookup& lookup) const {
  const auto heads = static_cast<std::size_t>(hasher_.spec().config().heads);
  const auto orders = static_cast<std::size_t>(hasher_.spec().config().orders());
  lookup.reset(table_index, *stores_[static_cast<std::size_t>(table_index)], heads, keys.size());
  lookup.all_rows.resize(keys.size() * heads);
  ENGRAM_TRY(hasher_.rows(table_index, keys, lookup.all_rows));
  lookup.orders.assign(orders, {});
  for (std::size_t unit = 0; unit < keys.size(); ++unit) {
    const std::size_t order = unit % orders;
    const std::size_t first = lookup.first_seen.find_or_add(keys[unit], order, unit);
    ++lookup.orders[order].keys;
    if (first != unit) {
      lookup.repeats.push_back({unit, first});
      continue;
    }
    ++lookup.orders[order].unique;
    if (cache_ != nullptr) {
      lookup.ids.push_back(
          {keys[unit], static_cast<std::uint32_t>(table_index), static_cast<std::uint32_t>(order)});
    }
    lookup.units.push_back(unit);
    const auto rows = std::span(lookup.all_rows).subspan(unit * heads, heads);
    lookup.rows.insert(lookup.rows.end(), rows.begin(), rows.end());
  }
  return {};
}

Status Memory::begin(Lookup& lookup, Priority priority) const {
  lookup.views.resize(lookup.rows.size());
  if (!lookup.ids.empty()) find_cached(lookup);
  // A store may ask the system before it reads; where others count on it, it is asked for nothing.
  if (lookup.wanted().empty() && !lookup.store->collective()) return {};
  const Stopwatch stopwatch(lookup.wait_ns);
  return lookup.store->begin(lookup.wanted(), lookup.fetch, priority);
}

Status Memory::finish(Lookup& lookup, const RowOutput& output) const {
  if (!lookup.wanted().empty() || lookup.store->collective()) {
    const Stopwatch stopwatch(lookup.wait_ns);
    ENGRAM_TRY(lookup.store->finish(lookup.wanted(), lookup.wanted_views(), lookup.fetch));
  }
  if (!lookup.ids.empty()) offer_fetched(lookup);
  ENGRAM_TRY(decode(output, lookup));
  const std::size_t row_bytes = output_bytes(lookup.table_index, output.format);
  const std::size_t unit_bytes = lookup.rows_per_unit * output.stride_bytes;
  for (const auto& repeat : lookup.repeats) {
    const std::byte* from = output.bytes.data() + repeat.first_unit * unit_bytes;
    std::byte* to = output.bytes.data() + repeat.unit * unit_bytes;
    for (std::size_t row = 0; row < lookup.rows_per_unit; ++row) {
      const std::size_t at = row * output.stride_bytes;
      std::memcpy(to + at, from + at, row_bytes);
    }
  }
  count(lookup);
  return {};
}

// Views of units that the cache has point into `cached`; the others are missing.
void Memory::find_cached(Lookup& lookup) const {
  const RowSizes sizes = lookup.store->source().layout.sizes();
  const std::size_t heads = lookup.rows_per_unit;
  const std::size_t unit_bytes = heads * sizes.total();
  lookup.cached.resize(lookup.ids.size() * unit_bytes);
  lookup.missing.clear();
  lookup.missing_rows.clear();
  for (std::size_t i = 0; i < lookup.ids.size(); ++i) {
    if (i + kPrefetchNgrams < lookup.ids.size()) cache_->prefetch(lookup.ids[i + kPrefetchNgrams]);
    const auto rows = std::span(lookup.cached).subspan(i * unit_bytes, unit_bytes);
    if (cache_->find(lookup.ids[i], rows)) {
      ++lookup.orders[lookup.ids[i].order].hits;
      for (std::size_t head = 0; head < heads; ++head) {
        lookup.views[i * heads + head] = packed_view(sizes, rows.data() + head * sizes.total());
      }
      continue;
    }
    lookup.missing.push_back(i);
    const auto wanted = std::span(lookup.rows).subspan(i * heads, heads);
    lookup.missing_rows.insert(lookup.missing_rows.end(), wanted.begin(), wanted.end());
  }
  lookup.missing_views.resize(lookup.missing_rows.size());
}

void Memory::offer_fetched(Lookup& lookup) const {
  const RowLayout& layout = lookup.store->source().layout;
  const std::size_t heads = lookup.rows_per_unit;
  const std::size_t unit_bytes = heads * layout.row_bytes();
  for (std::size_t m = 0; m < lookup.missing.size(); ++m) {
    const std::size_t i = lookup.missing[m];
    const auto views = std::span(lookup.missing_views).subspan(m * heads, heads);
    std::copy(views.begin(), views.end(),
              lookup.views.begin() + static_cast<std::ptrdiff_t>(i * heads));
    const auto rows = std::span(lookup.cached).subspan(i * unit_bytes, unit_bytes);
    pack_rows(layout, views, rows.data());
    cache_->offer(lookup.ids[i], rows);
  }
}

Status Memory::decode(const RowOutput& output, Lookup& lookup) const {
  const RowLayout& layout = lookup.store->source().layout;
  const RowCopier copier(layout);
  const std::span<const RowView> views = lookup.views;
  OutputRows outputs(output, lookup.units, lookup.rows_per_unit);
  // Stored bytes that nobody wants looked at need no second pass.
  const bool copy_only = output.format == OutputFormat::raw && nan_policy_ != NanPolicy::reject;
  lookup.packed.resize(kBlockRows * copier.row_bytes());
  lookup.outputs.resize(kBlockRows);
  for (std::size_t i = 0; i < std::min(kPrefetchRows, views.size()); ++i) {
    copier.prefetch_row(views[i]);
  }
  for (std::size_t begin = 0; begin < views.size(); begin += kBlockRows) {
    const std::size_t count = std::min(kBlockRows, views.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      if (begin + i + kPrefetchRows < views.size()) {
        copier.prefetch_row(views[begin + i + kPrefetchRows]);
      }
      lookup.outputs[i] = outputs.next();
      copier.copy(views[begin + i],
                  copy_only ? lookup.outputs[i] : lookup.packed.data() + i * copier.row_bytes());
    }
    if (copy_only) continue;
    const std::size_t bad = decode_rows(layout, output.format, lookup.packed.data(),
                                        std::span(lookup.outputs).first(count));
    if (bad < count && nan_policy_ == NanPolicy::reject) {
      return make_error(Code::corrupt,
                        "layer {}: row {} holds a NaN or an infinity (policy reject)",
                        lookup.store->source().layer_id, lookup.rows[begin + bad]);
    }
  }
  return {};
}

}  // namespace engram
