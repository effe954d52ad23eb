// Two tables of some 25,000 rows in files, and keys for them: more pages than any queue holds at
// once.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engram/memory.hpp"

#include "tests/support/hash_fixture.hpp"
#include "tests/support/random.hpp"
#include "tests/support/temporary.hpp"

namespace engram::test {

class TwoTables : public ::testing::Test {
 protected:
  static constexpr std::size_t kHeadDim = 32;
  static constexpr std::size_t kRowBytes = kHeadDim + 1;
  static constexpr std::size_t kTokens = 700;

  TwoTables() {
    HashConfig config = toy_config();
    config.first_prime_at_least = 4200;
    hasher_.emplace(make_hasher(config));
    Random random(5);
    for (std::size_t table = 0; table < 2; ++table) {
      const LayerHash& layer = hasher_->spec().layers()[table];
      TableSource source;
      source.layer_id = layer.layer_id;
      source.layout.head_dim = kHeadDim;
      source.row_count = layer.row_count;
      source.weight = write("codes" + std::to_string(table), kHeadDim, layer.row_count, random);
      source.scale = write("scales" + std::to_string(table), 1, layer.row_count, random);
      sources_.push_back(source);
    }
    std::vector<CompressedId> ids(kTokens);
    for (CompressedId& id : ids) id = static_cast<CompressedId>(random.below(16));
    keys_ = keys_of(*hasher_, ids);
  }

  Memory make_memory(const StoreOptions& options, std::uint64_t cache_bytes = 0) {
    auto stores = open_row_stores(sources_, options);
    EXPECT_TRUE(stores) << (stores ? "" : stores.error().message);
    auto memory = Memory::create(*hasher_, *std::move(stores), NanPolicy::propagate, cache_bytes);
    EXPECT_TRUE(memory) << (memory ? "" : memory.error().message);
    return *std::move(memory);
  }

  // Keys of `count` tokens from the first: three each.
  std::span<const Key> keys(int table, std::size_t first, std::size_t count) const {
    return std::span(keys_).subspan((static_cast<std::size_t>(table) * kTokens + first) * 3,
                                    count * 3);
  }

  // Room for the stored rows of so many keys.
  static RowOutput raw(std::string& bytes, std::size_t key_count) {
    bytes.assign(key_count * 2 * kRowBytes, '\xEE');
    return {OutputFormat::raw, std::as_writable_bytes(std::span(bytes)), 0};
  }

  TemporaryDirectory folder_;
  std::optional<Hasher> hasher_;
  std::vector<TableSource> sources_;
  std::vector<Key> keys_;

 private:
  TensorExtent write(const std::string& name, std::size_t columns, std::uint64_t rows,
                     Random& random) {
    std::string bytes(columns * rows, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(120));
    TensorExtent extent;
    extent.path = folder_ / name;
    extent.shape = {rows, columns};
    extent.size_bytes = extent.file_bytes = bytes.size();
    write_file(extent.path, bytes);
    return extent;
  }
};

}  // namespace engram::test
