// The small layout of the field-fault tests: identity map over 16 tokens, primes from 101, pad 2.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "engram/hash.hpp"

namespace engram::test {

inline HashConfig toy_config() {
  HashConfig config;
  config.layer_ids = {1, 14};
  config.max_order = 4;
  config.heads = 2;
  config.first_prime_at_least = 101;
  config.compressed_size = 16;
  config.pad = 2;
  return config;
}

inline HashConfig v41_config() {
  HashConfig config;
  config.layer_ids = {1, 14};
  config.first_prime_at_least = 16'000'000;
  config.compressed_size = 99'092;
  config.pad = 2;
  return config;
}

// Requires a valid config.
inline Hasher make_hasher(const HashConfig& config) {
  auto spec = HashSpec::compute(config);
  EXPECT_TRUE(spec) << spec.error().message;
  return Hasher(*std::move(spec));
}

// All keys [layers, length, orders].
inline std::vector<Key> keys_of(const Hasher& hasher, std::span<const CompressedId> ids,
                                const Lookback& lookback = Lookback()) {
  std::vector<Key> keys(hasher.spec().layers().size() * ids.size() *
                        static_cast<std::size_t>(hasher.spec().config().orders()));
  const Status status = hasher.keys(ids, lookback, keys);
  EXPECT_TRUE(status) << status.error().message;
  return keys;
}

// Rows [length, columns] of one table.
inline std::vector<RowId> rows_of(const Hasher& hasher, int table,
                                  std::span<const CompressedId> ids,
                                  const Lookback& lookback = Lookback()) {
  const auto keys = keys_of(hasher, ids, lookback);
  const std::size_t per_layer = keys.size() / hasher.spec().layers().size();
  std::vector<RowId> rows(per_layer * static_cast<std::size_t>(hasher.spec().config().heads));
  const Status status = hasher.rows(
      table, std::span(keys).subspan(static_cast<std::size_t>(table) * per_layer, per_layer), rows);
  EXPECT_TRUE(status) << status.error().message;
  return rows;
}

// The rows of the last position.
inline std::vector<RowId> last_rows(const Hasher& hasher, int table,
                                    std::span<const CompressedId> ids,
                                    const Lookback& lookback = Lookback()) {
  const auto rows = rows_of(hasher, table, ids, lookback);
  return {rows.end() - hasher.spec().config().columns(), rows.end()};
}

}  // namespace engram::test
