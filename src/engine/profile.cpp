// Which n-grams a corpus asks for most.
#include <algorithm>
#include <tuple>

#include "engram/engine.hpp"

namespace engram {
namespace {

struct Counted {
  std::uint64_t count;
  TableNgram ngram;
};

// The most frequent first; ties by identity, so that the same corpus gives the same set.
bool hotter(const Counted& a, const Counted& b) {
  return std::tuple(b.count, a.ngram.order, a.ngram.table_index, a.ngram.key) <
         std::tuple(a.count, b.ngram.order, b.ngram.table_index, b.ngram.key);
}

void keep_hottest(std::vector<Counted>& all, std::size_t count) {
  if (all.size() <= count) return;
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                   hotter);
  all.resize(count);
}

// Adds the n-grams of one table and order that were met twice or more.
void add_repeated(std::vector<Key>& keys, TableNgram ngram, std::vector<Counted>& all) {
  std::sort(keys.begin(), keys.end());
  for (std::size_t begin = 0; begin < keys.size();) {
    std::size_t end = begin;
    while (end < keys.size() && keys[end] == keys[begin]) ++end;
    ngram.key = keys[begin];
    if (end - begin >= 2) all.push_back({end - begin, ngram});
    begin = end;
  }
}

}  // namespace

Status Profile::add(std::span<const TokenId> document) {
  const std::size_t before = compressed_.size();
  compressed_.resize(before + document.size());
  Status status =
      engine_->token_map().compress(document, {}, std::span(compressed_).subspan(before));
  if (!status) {
    compressed_.resize(before);
    return status;
  }
  begins_.push_back(static_cast<std::int64_t>(compressed_.size()));
  return {};
}

Result<std::vector<TableNgram>> Profile::hottest(std::size_t count) const {
  const Hasher& hasher = engine_->hasher();
  const auto orders = static_cast<std::size_t>(hasher.spec().config().orders());
  const std::size_t tables = hasher.spec().layers().size();
  std::vector<Counted> all;
  std::vector<Key> column;
  std::vector<Key> keys;
  for (std::size_t order = 0; order < orders; ++order) {
    for (std::size_t table = 0; table < tables; ++table) {
      // Hashed again for each: the keys of one column are all that is held at a time.
      column.clear();
      for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
        const auto begin = static_cast<std::size_t>(begins_[i]);
        const std::size_t length = static_cast<std::size_t>(begins_[i + 1]) - begin;
        keys.resize(tables * length * orders);
        ENGRAM_TRY(hasher.keys(std::span(compressed_).subspan(begin, length), Lookback(), keys));
        for (std::size_t t = 0; t < length; ++t) {
          column.push_back(keys[(table * length + t) * orders + order]);
        }
      }
      add_repeated(column, {0, static_cast<int>(table), static_cast<int>(order) + 2}, all);
      keep_hottest(all, count);
    }
  }
  std::sort(all.begin(), all.end(), hotter);
  std::vector<TableNgram> ngrams;
  ngrams.reserve(all.size());
  for (const Counted& counted : all) ngrams.push_back(counted.ngram);
  return ngrams;
}

}  // namespace engram
