// Hashes positions to keys, and keys to rows.
#include "engram/hash.hpp"

#include "base/error.hpp"
#include "simd/modulo.hpp"

namespace engram {

Hasher::Hasher(HashSpec spec) : spec_(std::move(spec)) {
  for (const LayerHash& layer : spec_.layers()) {
    for (const std::uint64_t prime : layer.primes) {
      reciprocals_.push_back(1.0 / static_cast<double>(prime));
    }
  }
}

Status Hasher::check_ids(std::span<const CompressedId> compressed) const {
  const std::int64_t limit = spec_.config().compressed_size;
  for (std::size_t i = 0; i < compressed.size(); ++i) {
    if (compressed[i] >= kDead && compressed[i] < limit) continue;
    return make_error(Code::out_of_range,
                      "compressed id {} of {}: expected 0..{} or {} (dead), found {}", i,
                      compressed.size(), limit - 1, kDead, compressed[i]);
  }
  return {};
}

// One sequence occupying positions first .. first + compressed.size() of a batch of `length`.
void Hasher::sequence_keys(std::span<const CompressedId> compressed, const Lookback& lookback,
                           std::size_t first, std::size_t length, std::span<Key> keys) const {
  const int max_order = spec_.config().max_order;
  const int orders = spec_.config().orders();
  const auto pad = static_cast<std::uint64_t>(spec_.config().pad);
  std::array<std::uint64_t, kOrderLimit> window{};  // w[distance]
  for (std::size_t position = 0; position < compressed.size(); ++position) {
    bool blocked = false;
    for (int distance = 0; distance < max_order; ++distance) {
      const auto back = static_cast<std::size_t>(distance);
      const CompressedId id = back <= position ? compressed[position - back]
                                               : lookback[static_cast<int>(back - position) - 1];
      blocked = blocked || id == kDead;
      window[distance] = blocked ? pad : static_cast<std::uint64_t>(id);
    }
    for (std::size_t table = 0; table < spec_.layers().size(); ++table) {
      const std::uint64_t* multipliers = spec_.layers()[table].multipliers.data();
      Key* out = keys.data() + (table * length + first + position) * orders;
      Key roll = window[0] * multipliers[0];
      for (int distance = 1; distance < max_order; ++distance) {
        roll ^= window[distance] * multipliers[distance];
        out[distance - 1] = roll;
      }
    }
  }
}

Status Hasher::keys(std::span<const CompressedId> compressed, const Lookback& lookback,
                    std::span<Key> keys) const {
  const std::array<std::int64_t, 2> query_start = {0, static_cast<std::int64_t>(compressed.size())};
  return batch_keys(compressed, query_start, {&lookback, 1}, keys);
}

Status Hasher::batch_keys(std::span<const CompressedId> compressed,
                          std::span<const std::int64_t> query_start,
                          std::span<const Lookback> lookbacks, std::span<Key> keys) const {
  const std::size_t length = compressed.size();
  const std::size_t key_count = spec_.layers().size() * length * spec_.config().orders();
  if (keys.size() != key_count || query_start.size() != lookbacks.size() + 1) {
    return make_error(Code::invalid_argument,
                      "hash: {} positions and {} sequences need room for {} keys and {} query "
                      "starts, found {} and {}",
                      length, lookbacks.size(), key_count, lookbacks.size() + 1, keys.size(),
                      query_start.size());
  }
  for (std::size_t i = 0; i < query_start.size(); ++i) {
    const std::int64_t floor = i == 0 ? 0 : query_start[i - 1];
    const bool last = i + 1 == query_start.size();
    const auto end = static_cast<std::int64_t>(length);
    if (query_start[i] >= floor && query_start[i] <= end && (i != 0 || query_start[0] == 0) &&
        (!last || query_start[i] == end)) {
      continue;
    }
    return make_error(Code::invalid_argument,
                      "hash: query start {}: expected ascending values from 0 to {}, found {}", i,
                      end, query_start[i]);
  }
  ENGRAM_TRY(check_ids(compressed));
  for (const Lookback& lookback : lookbacks) {
    for (int distance = 0; distance < kOrderLimit - 1; ++distance) {
      ENGRAM_TRY(check_ids(std::array{lookback[distance]}));
    }
  }
  for (std::size_t i = 0; i < lookbacks.size(); ++i) {
    const auto first = static_cast<std::size_t>(query_start[i]);
    const auto count = static_cast<std::size_t>(query_start[i + 1]) - first;
    sequence_keys(compressed.subspan(first, count), lookbacks[i], first, length, keys);
  }
  return {};
}

Status Hasher::rows(int table_index, std::span<const Key> keys, std::span<RowId> rows) const {
  if (table_index < 0 || static_cast<std::size_t>(table_index) >= spec_.layers().size()) {
    return make_error(Code::out_of_range, "table index: expected 0..{}, found {}",
                      spec_.layers().size() - 1, table_index);
  }
  const auto heads = static_cast<std::size_t>(spec_.config().heads);
  const auto orders = static_cast<std::size_t>(spec_.config().orders());
  if (keys.size() % orders != 0 || rows.size() != keys.size() * heads) {
    return make_error(Code::invalid_argument,
                      "hash: {} keys (a multiple of {}) need room for {} rows, found {}",
                      keys.size(), orders, keys.size() * heads, rows.size());
  }
  const LayerHash& layer = spec_.layers()[table_index];
  const std::size_t columns = orders * heads;
  const simd::ModuloTable table{
      layer.primes, layer.offsets,
      std::span(reciprocals_).subspan(static_cast<std::size_t>(table_index) * columns, columns),
      heads};
  simd::rows_from_keys(table, keys, rows);
  return {};
}

}  // namespace engram
