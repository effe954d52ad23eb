// Rows of n-grams met before, in front of a slow tier: one probe finds all of a key's rows.
#include "memory/ngram_cache.hpp"

#include <algorithm>
#include <cstring>

#include "base/mix64.hpp"

namespace engram {
namespace {

std::uint32_t kind_of(const NgramCache::Id& id) { return id.table << 8 | (id.order + 1); }

std::uint64_t hash_of(const NgramCache::Id& id) {
  return mix64(id.key + 0x9E37'79B9'7F4A'7C15u * kind_of(id));
}

// [0, count) from the upper half of a hash.
std::uint64_t reduce(std::uint64_t hash, std::uint64_t count) { return (hash >> 32) * count >> 32; }

}  // namespace

NgramCache::NgramCache(std::size_t rows_bytes, std::uint64_t budget_bytes)
    : rows_bytes_(rows_bytes), locks_(kLocks) {
  const std::uint64_t set_bytes = sizeof(Set) + kWays * rows_bytes;
  constexpr std::uint64_t kSetsMax = std::uint64_t{1} << 32;  // what reduce() can reach
  sets_ = std::min(budget_bytes / set_bytes, kSetsMax);
  index_.resize(sets_);
  rows_ = std::make_unique_for_overwrite<std::byte[]>(sets_ * kWays * rows_bytes);
}

std::uint64_t NgramCache::size_bytes() const { return sets_ * (sizeof(Set) + kWays * rows_bytes_); }

void NgramCache::prefetch(const Id& id) const {
  if (sets_ == 0) return;
  const std::uint64_t at = reduce(hash_of(id), sets_);
  __builtin_prefetch(&locks_[at % kLocks]);
  const auto* set = reinterpret_cast<const std::byte*>(&index_[at]);
  for (std::size_t line = 0; line < sizeof(Set); line += 64) __builtin_prefetch(set + line);
}

bool NgramCache::find(const Id& id, std::span<std::byte> out) {
  if (sets_ == 0) return false;
  const std::uint64_t at = reduce(hash_of(id), sets_);
  const std::uint32_t kind = kind_of(id);
  const std::lock_guard lock(locks_[at % kLocks]);
  Set& set = index_[at];
  const std::size_t way = way_of(set, id.key, kind);
  if (way == kWays) return false;
  set.recency[way] = std::min<std::uint8_t>(set.recency[way] + kStep, kMostRecent);
  std::memcpy(out.data(), rows_at(at, way), out.size());
  return true;
}

std::size_t NgramCache::way_of(const Set& set, std::uint64_t key, std::uint32_t kind) {
  std::size_t way = 0;
  while (way < kWays && (set.keys[way] != key || set.kinds[way] != kind)) ++way;
  return way;
}

std::size_t NgramCache::victim(Set& set) {
  for (;;) {
    for (std::size_t way = 0; way < kWays; ++way) {
      if (set.kinds[way] == 0 || set.recency[way] == 0) return way;
    }
    for (std::uint8_t& recency : set.recency) --recency;
  }
}

void NgramCache::offer(const Id& id, std::span<const std::byte> rows) {
  put(id, rows, id.order == 0 ? kStep : 1);
}

void NgramCache::insert(const Id& id, std::span<const std::byte> rows) {
  put(id, rows, kMostRecent);
}

void NgramCache::put(const Id& id, std::span<const std::byte> rows, std::uint8_t recency) {
  if (sets_ == 0) return;
  const std::uint64_t at = reduce(hash_of(id), sets_);
  const std::uint32_t kind = kind_of(id);
  const std::lock_guard lock(locks_[at % kLocks]);
  Set& set = index_[at];
  if (way_of(set, id.key, kind) != kWays) return;  // another thread was first
  const std::size_t way = victim(set);
  std::memcpy(rows_at(at, way), rows.data(), rows.size());
  set.keys[way] = id.key;
  set.kinds[way] = kind;
  set.recency[way] = recency;
}

}  // namespace engram
