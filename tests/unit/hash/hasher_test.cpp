// Keys and rows: published vectors, field faults, and every way to cut a sequence.
#include <gtest/gtest.h>

#include <filesystem>

#include "engram/hash.hpp"
#include "engram/token_map.hpp"

#include "base/sha256.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/hash_fixture.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
using test::last_rows;
using test::make_hasher;

using Ids = std::vector<CompressedId>;
using Rows = std::vector<RowId>;

class ToyHasher : public ::testing::Test {
 protected:
  Hasher hasher_ = make_hasher(test::toy_config());
};

TEST_F(ToyHasher, ReproducesTheFixture) {
  EXPECT_EQ(last_rows(hasher_, 0, Ids{5}), (Rows{5, 161, 215, 399, 432, 615}));
  EXPECT_EQ(last_rows(hasher_, 0, Ids{5, 6}), (Rows{66, 161, 295, 373, 515, 575}));
  EXPECT_EQ(last_rows(hasher_, 0, Ids{5, 6, 7}), (Rows{99, 171, 292, 339, 452, 603}));
  EXPECT_EQ(last_rows(hasher_, 0, Ids{5, 6, 7, 8}), (Rows{100, 117, 233, 399, 489, 602}));
  EXPECT_EQ(last_rows(hasher_, 0, Ids{5, 6, 7, 8, 9}), (Rows{75, 161, 218, 383, 451, 562}));
  EXPECT_EQ(last_rows(hasher_, 1, Ids{5, 6, 7, 8}), (Rows{106, 211, 383, 413, 603, 825}));
}

TEST_F(ToyHasher, TreatsEndOfSequenceAsAnOrdinaryToken) {
  EXPECT_EQ(last_rows(hasher_, 0, Ids{5, 3, 7, 8}), (Rows{100, 117, 306, 418, 452, 581}));
}

TEST_F(ToyHasher, ResumesFromTheWholeHistory) {
  // Prompt 5 6 7, generated 8 9, preempted, resumed: the look-back is of all five.
  const Lookback lookback = Lookback().after(Ids{5, 6, 7, 8, 9});
  EXPECT_EQ(last_rows(hasher_, 0, Ids{4}, lookback), (Rows{24, 167, 204, 336, 477, 613}));
  EXPECT_EQ(last_rows(hasher_, 0, Ids{4}, Lookback(Ids{9, 8, 7})),
            (Rows{24, 167, 204, 336, 477, 613}));
}

TEST_F(ToyHasher, StartsAFreshTimelineWithoutTheLastOnes) {
  EXPECT_EQ(last_rows(hasher_, 0, Ids{5}, Lookback()), (Rows{5, 161, 215, 399, 432, 615}));
  EXPECT_NE(last_rows(hasher_, 0, Ids{5}, Lookback().after(Ids{7, 8, 9})),
            (Rows{5, 161, 215, 399, 432, 615}));
}

TEST_F(ToyHasher, RefusesIdsOutsideTheVocabularyAndWritesNothing) {
  for (const CompressedId bad : {-2, 16, 1 << 30}) {
    std::vector<Key> keys(2 * 3 * 3, 77);
    EXPECT_TRUE(fails(hasher_.keys(Ids{5, 6, bad}, Lookback(), keys), Code::out_of_range,
                      "compressed id 2 of 3"));
    EXPECT_EQ(keys, std::vector<Key>(18, 77));
  }
  std::vector<Key> keys(6);
  EXPECT_TRUE(fails(hasher_.keys(Ids{5}, Lookback(Ids{99}), keys), Code::out_of_range, "found 99"));
}

TEST_F(ToyHasher, RefusesLengthsThatDisagree) {
  std::vector<Key> keys(5);
  EXPECT_TRUE(fails(hasher_.keys(Ids{5}, Lookback(), keys), Code::invalid_argument, "room for 6"));
  keys.resize(6);
  std::vector<RowId> rows(5);
  EXPECT_TRUE(fails(hasher_.rows(0, std::span(keys).first(3), rows), Code::invalid_argument,
                    "room for 6 rows"));
  EXPECT_TRUE(fails(hasher_.rows(2, keys, rows), Code::out_of_range, "table index"));
}

TEST_F(ToyHasher, BlocksFromADeadPositionOn) {
  // The dead position itself, and what reaches over it, hash as pads; the block is sticky.
  const Ids with_image = {5, kDead, 7, 8, 9};
  const auto pads = last_rows(hasher_, 0, Ids{2});
  const auto rows = test::rows_of(hasher_, 0, with_image);
  EXPECT_EQ(Rows(rows.begin() + 6, rows.begin() + 12), pads);
  // Position 2 sees 7 then pads, exactly like a sequence that starts with 7.
  EXPECT_EQ(Rows(rows.begin() + 12, rows.begin() + 18), last_rows(hasher_, 0, Ids{7}));
  EXPECT_EQ(Rows(rows.begin() + 18, rows.begin() + 24), last_rows(hasher_, 0, Ids{7, 8}));
  EXPECT_EQ(Rows(rows.begin() + 24, rows.begin() + 30), last_rows(hasher_, 0, Ids{7, 8, 9}));
}

// One whole prefill, for comparison with any other way to feed the same ids.
TEST_F(ToyHasher, GivesTheSameForAnyChunking) {
  test::Random random(1);
  for (int round = 0; round < 50; ++round) {
    Ids ids(1 + random.below(24));
    for (CompressedId& id : ids) {
      id = random.below(6) == 0 ? kDead : static_cast<CompressedId>(random.below(16));
    }
    const auto whole = test::rows_of(hasher_, 1, ids);
    Rows chunked;
    Lookback lookback;
    for (std::size_t first = 0; first < ids.size();) {
      const std::size_t count = std::min<std::size_t>(random.below(6), ids.size() - first);
      const auto chunk = std::span<const CompressedId>(ids).subspan(first, count);
      const auto rows = test::rows_of(hasher_, 1, chunk, lookback);
      chunked.insert(chunked.end(), rows.begin(), rows.end());
      lookback = lookback.after(chunk);
      first += count;
    }
    ASSERT_EQ(chunked, whole);
  }
}

TEST_F(ToyHasher, LeavesNoTraceOfRejectedDrafts) {
  for (const std::size_t drafts : {1, 4, 5, 7, 11}) {
    Ids sequence = {5, 6, 7};
    Ids draft(drafts);
    for (std::size_t i = 0; i < drafts; ++i) draft[i] = static_cast<CompressedId>((i * 5 + 1) % 16);
    for (std::size_t accepted = 0; accepted <= drafts; ++accepted) {
      const Lookback before = Lookback().after(sequence);
      const Lookback after = before.after(std::span(draft).first(accepted));
      Ids whole = sequence;
      whole.insert(whole.end(), draft.begin(), draft.begin() + static_cast<long>(accepted));
      whole.push_back(9);
      EXPECT_EQ(last_rows(hasher_, 0, Ids{9}, after), last_rows(hasher_, 0, whole));
    }
  }
}

TEST_F(ToyHasher, KeepsSequencesOfABatchApart) {
  test::Random random(2);
  for (int round = 0; round < 30; ++round) {
    const std::size_t sequences = 1 + random.below(5);
    Ids all;
    std::vector<std::int64_t> query_start = {0};
    std::vector<Lookback> lookbacks;
    std::vector<std::vector<Key>> expected;
    for (std::size_t i = 0; i < sequences; ++i) {
      Ids history(random.below(5));
      Ids chunk(random.below(5));  // empty ones too: idle rows of a padded batch
      for (CompressedId& id : history) id = static_cast<CompressedId>(random.below(16));
      for (CompressedId& id : chunk) id = static_cast<CompressedId>(random.below(16));
      lookbacks.push_back(Lookback().after(history));
      expected.push_back(test::keys_of(hasher_, chunk, lookbacks.back()));
      all.insert(all.end(), chunk.begin(), chunk.end());
      query_start.push_back(static_cast<std::int64_t>(all.size()));
    }
    std::vector<Key> keys(2 * all.size() * 3);
    ASSERT_TRUE(is_ok(hasher_.batch_keys(all, query_start, lookbacks, keys)));
    for (std::size_t table = 0; table < 2; ++table) {
      for (std::size_t i = 0; i < sequences; ++i) {
        const auto begin = static_cast<std::size_t>(query_start[i]);
        const auto count = (static_cast<std::size_t>(query_start[i + 1]) - begin) * 3;
        const std::vector<Key> got(
            keys.begin() + static_cast<long>((table * all.size() + begin) * 3),
            keys.begin() + static_cast<long>((table * all.size() + begin) * 3 + count));
        const std::vector<Key> want(expected[i].begin() + static_cast<long>(table * count),
                                    expected[i].begin() + static_cast<long>((table + 1) * count));
        ASSERT_EQ(got, want);
      }
    }
  }
}

TEST_F(ToyHasher, RefusesQueryStartsThatDoNotTile) {
  std::vector<Key> keys(2 * 3 * 3);
  const std::vector<Lookback> two(2);
  const auto run = [&](std::vector<std::int64_t> starts) {
    return hasher_.batch_keys(Ids{1, 2, 3}, starts, two, keys);
  };
  EXPECT_TRUE(is_ok(run({0, 1, 3})));
  EXPECT_TRUE(fails(run({1, 2, 3}), Code::invalid_argument, "query start 0"));
  EXPECT_TRUE(fails(run({0, 2, 1}), Code::invalid_argument, "query start 2"));
  EXPECT_TRUE(fails(run({0, 1, 2}), Code::invalid_argument, "query start 2"));
  EXPECT_TRUE(fails(run({0, 9, 3}), Code::invalid_argument, "query start 1"));
  EXPECT_TRUE(fails(run({0, 3}), Code::invalid_argument, "query starts"));
}

// Vectors that other implementations froze, with the release's constants.
TEST(Hasher, ReproducesTheVectorsOfOtherPorts) {
  const Hasher hasher = make_hasher(test::v41_config());
  for (const std::string_view id : {"llamacpp-F1", "llamacpp-F2-dead"}) {
    const JsonElement vector = test::golden(id);
    const auto map = test::flat<CompressedId>(test::at(vector, {"inputs", "token_map"}));
    const auto tokens = test::flat<TokenId>(test::at(vector, {"inputs", "tokens"}));
    const auto mask = test::flat<int>(test::at(vector, {"inputs", "mask"}));
    Ids ids;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      ids.push_back(mask.empty() || mask[i] != 0 ? map[static_cast<std::size_t>(tokens[i])]
                                                 : kDead);
    }
    const auto expected = test::flat<RowId>(test::at(vector, {"expect", "rows"}));
    Rows rows;  // [position][table][column]
    const auto first = test::rows_of(hasher, 0, ids);
    const auto second = test::rows_of(hasher, 1, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      rows.insert(rows.end(), first.begin() + static_cast<long>(i * 24),
                  first.begin() + static_cast<long>(i * 24 + 24));
      rows.insert(rows.end(), second.begin() + static_cast<long>(i * 24),
                  second.begin() + static_cast<long>(i * 24 + 24));
    }
    EXPECT_EQ(rows, expected) << id;
  }
}

// Real token ids through the real vocabulary: a digest over all rows, and the first and last.
TEST(Hasher, ReproducesTheRowsOfRealTokens) {
  const std::string path = test::shared_data("data/v41-stand-in-tokenizer.json");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no real tokenizer at " << path;
  const auto map = TokenMap::from_tokenizer_file(path);
  ASSERT_TRUE(is_ok(map));
  const JsonElement vector = test::golden("run37-derived");
  const auto tokens = test::flat<TokenId>(test::at(vector, {"inputs", "ids"}));
  Ids ids(tokens.size());
  ASSERT_TRUE(is_ok(map->compress(tokens, {}, ids)));
  const Hasher hasher = make_hasher(test::v41_config());
  const auto first = test::rows_of(hasher, 0, ids);
  const auto second = test::rows_of(hasher, 1, ids);
  Rows rows;  // [position][table][column]
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (const auto* table : {&first, &second}) {
      rows.insert(rows.end(), table->begin() + static_cast<long>(i * 24),
                  table->begin() + static_cast<long>(i * 24 + 24));
    }
  }
  const auto digest = sha256_hex(std::as_bytes(std::span(rows)));
  ASSERT_TRUE(is_ok(digest));
  EXPECT_EQ(*digest,
            test::at(vector, {"expect", "sha256_int64_le_[37,2,24]"}).get_string().value_unsafe());
  EXPECT_EQ(Rows(first.begin(), first.begin() + 24),
            test::flat<RowId>(test::at(vector, {"expect", "first_layer1"})));
  EXPECT_EQ(Rows(second.end() - 24, second.end()),
            test::flat<RowId>(test::at(vector, {"expect", "last_layer14"})));
}

TEST(Hasher, ReproducesTheFrozenToyBatches) {
  const JsonElement vector = test::golden("nemo-toy");
  HashConfig config = test::toy_config();
  config.first_prime_at_least = 11;
  config.compressed_size = 6;
  const auto map = test::flat<CompressedId>(test::at(vector, {"expect", "token_map"}));
  config.pad = map[2];
  const Hasher hasher = make_hasher(config);
  EXPECT_EQ(hasher.spec().layers()[0].row_count, 112u);
  EXPECT_EQ(hasher.spec().layers()[1].row_count, 252u);
  Rows rows;
  for (std::size_t batch = 0; batch < 2; ++batch) {
    const auto tokens =
        test::flat<TokenId>(test::at(vector, {"inputs", "batches"}).at(batch).value_unsafe());
    const auto mask =
        test::flat<int>(test::at(vector, {"inputs", "masks"}).at(batch).value_unsafe());
    Ids ids;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      ids.push_back(mask[i] != 0 ? map[static_cast<std::size_t>(tokens[i])] : kDead);
    }
    const auto first = test::rows_of(hasher, 0, ids);
    const auto second = test::rows_of(hasher, 1, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (const auto* table : {&first, &second}) {
        rows.insert(rows.end(), table->begin() + static_cast<long>(i * 6),
                    table->begin() + static_cast<long>(i * 6 + 6));
      }
    }
  }
  EXPECT_EQ(rows, test::flat<RowId>(test::at(vector, {"expect", "rows"})));
}

}  // namespace
}  // namespace engram
