// Rows into the cache before anyone asks for them.
#include <algorithm>

#include "base/error.hpp"
#include "memory/lookup.hpp"

namespace engram {
namespace {

// N-grams that are fetched at once: enough to fill a device's queue many times over.
constexpr std::size_t kBatch = 2048;

}  // namespace

Status Memory::warm(std::span<const TableNgram> ngrams, const Progress& progress,
                    const std::stop_token& stop) const {
  if (cache_ == nullptr) {
    return make_error(Code::invalid_argument, "warm: the memory has no cache");
  }
  const int max_order = hasher_.spec().config().max_order;
  ngrams = ngrams.first(std::min<std::size_t>(ngrams.size(), cache_->capacity()));
  std::vector<std::vector<TableNgram>> of_table(stores_.size());
  for (const TableNgram& ngram : ngrams) {
    ENGRAM_TRY(check_table(ngram.table_index, 1));
    if (ngram.order < 2 || ngram.order > max_order) {
      return make_error(Code::out_of_range, "warm: expected order 2..{}, found {}", max_order,
                        ngram.order);
    }
    of_table[static_cast<std::size_t>(ngram.table_index)].push_back(ngram);
  }
  Lookup lookup;
  std::uint64_t done = 0;
  for (const auto& table : of_table) {
    for (std::size_t begin = 0; begin < table.size(); begin += kBatch) {
      if (stop.stop_requested()) {
        return make_error(Code::unavailable, "warm: stopped after {} of {} n-grams", done,
                          ngrams.size());
      }
      const auto batch = std::span(table).subspan(begin, std::min(kBatch, table.size() - begin));
      ENGRAM_TRY(warm_batch(batch, lookup));
      done += batch.size();
      if (progress) progress(done, ngrams.size());
    }
  }
  return {};
}

// N-grams of one table. The store sorts what it reads by place in the file.
Status Memory::warm_batch(std::span<const TableNgram> ngrams, Lookup& lookup) const {
  const int table = ngrams.front().table_index;
  const auto heads = static_cast<std::size_t>(hasher_.spec().config().heads);
  const auto orders = static_cast<std::size_t>(hasher_.spec().config().orders());
  const RowStore& from = store(table);
  const std::size_t unit_bytes = heads * from.source().layout.row_bytes();
  lookup.reset(table, from, heads, ngrams.size());
  // The hasher wants a key of every order; the n-gram stands in for those it is not.
  std::vector<Key> keys(orders);
  lookup.all_rows.resize(orders * heads);
  for (const TableNgram& ngram : ngrams) {
    std::fill(keys.begin(), keys.end(), ngram.key);
    ENGRAM_TRY(hasher_.rows(table, keys, lookup.all_rows));
    const auto first =
        lookup.all_rows.begin() + static_cast<std::ptrdiff_t>((ngram.order - 2) * heads);
    lookup.rows.insert(lookup.rows.end(), first, first + static_cast<std::ptrdiff_t>(heads));
  }
  lookup.views.resize(lookup.rows.size());
  ENGRAM_TRY(from.fetch(lookup.rows, lookup.views, lookup.fetch));
  lookup.cached.resize(unit_bytes);
  for (std::size_t i = 0; i < ngrams.size(); ++i) {
    pack_rows(from.source().layout, std::span(lookup.views).subspan(i * heads, heads),
              lookup.cached.data());
    cache_->insert({ngrams[i].key, static_cast<std::uint32_t>(table),
                    static_cast<std::uint32_t>(ngrams[i].order - 2)},
                   lookup.cached);
  }
  return {};
}

}  // namespace engram
