// Hot n-grams: counted right, kept in a file of one addressing, and in the cache before they are
// asked for.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "engram/engine.hpp"

#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
using Tokens = std::vector<TokenId>;

class HotSet : public ::testing::Test {
 protected:
  void SetUp() override { model_.write(folder_); }

  Engine open(Tier tier = Tier::direct, std::uint64_t cache_bytes = 1 << 20) {
    EngineOptions options;
    options.store.tier = tier;
    options.cache_bytes = cache_bytes;
    auto engine = Engine::open(folder_.path(), options);
    EXPECT_TRUE(is_ok(engine));
    return *std::move(engine);
  }

  test::TemporaryDirectory folder_;
  test::TinyModel model_;
};

TEST_F(HotSet, CountsEveryNgramOfEveryDocument) {
  const Engine engine = open();
  const std::vector<Tokens> documents = {{1, 2, 3, 1, 2, 3, 1}, {4}, {1, 2, 5, 5, 5}, {4}};
  Profile profile(engine);
  std::map<std::tuple<int, int, Key>, int> counts;
  for (const Tokens& document : documents) {
    ASSERT_TRUE(is_ok(profile.add(document)));
    Session session(engine);
    ASSERT_TRUE(is_ok(session.advance(document)));
    for (int table = 0; table < 2; ++table) {
      const auto keys = *session.keys(table == 0 ? 1 : 14);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        ++counts[{table, static_cast<int>(i % 3) + 2, keys[i]}];
      }
    }
  }
  EXPECT_EQ(profile.token_count(), 14u);
  const auto hottest = profile.hottest(1000);
  ASSERT_TRUE(is_ok(hottest));
  std::size_t repeated = 0;
  for (const auto& [ngram, count] : counts) repeated += count >= 2 ? 1 : 0;
  EXPECT_EQ(hottest->size(), repeated);
  int before = 1000;
  for (const TableNgram& ngram : *hottest) {
    const int count = counts[{ngram.table_index, ngram.order, ngram.key}];
    EXPECT_GE(count, 2);
    EXPECT_LE(count, before);
    before = count;
  }
  const auto three = profile.hottest(3);
  ASSERT_TRUE(is_ok(three));
  EXPECT_EQ(*three, std::vector(hottest->begin(), hottest->begin() + 3));
  EXPECT_TRUE(fails(profile.add(Tokens{1, 99'999}), Code::out_of_range, "99999"));
  EXPECT_EQ(profile.token_count(), 14u);
}

TEST_F(HotSet, ComesBackFromItsFile) {
  const Engine engine = open();
  const std::vector<TableNgram> ngrams = {{123, 0, 2}, {1ull << 62, 1, 4}, {0, 1, 3}};
  const std::string path = folder_ / "hot";
  ASSERT_TRUE(is_ok(write_hot_set(path, engine, ngrams)));
  const auto back = read_hot_set(path, engine);
  ASSERT_TRUE(is_ok(back));
  EXPECT_EQ(*back, ngrams);
  EXPECT_TRUE(fails(write_hot_set(path, engine, ngrams), Code::invalid_argument, "exists"));

  // Every cut and every changed byte is seen.
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    test::write_file(folder_ / "cut", bytes.substr(0, size));
    EXPECT_TRUE(fails(read_hot_set(folder_ / "cut", engine), Code::corrupt, "cut")) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); at += 5) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    test::write_file(folder_ / "changed", changed);
    EXPECT_TRUE(fails(read_hot_set(folder_ / "changed", engine), Code::corrupt, "changed")) << at;
  }
  // Another model.
  test::TinyModel other;
  other.config["engram_vocab_size"] = "103";
  other.config["engram_num_embeddings"] = "[672,876]";
  test::TemporaryDirectory elsewhere;
  other.write(elsewhere);
  EngineOptions addresses;
  addresses.load = Load::addresses;
  const auto stranger = Engine::open(elsewhere.path(), addresses);
  ASSERT_TRUE(is_ok(stranger));
  EXPECT_TRUE(fails(read_hot_set(path, *stranger), Code::corrupt, "other primes"));
}

TEST_F(HotSet, FillsTheCacheWhileOthersLookUp) {
  const Engine engine = open();
  const Engine plain = open(Tier::ram, 0);
  test::Random random(9);
  Tokens tokens(120);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.below(16));
  Profile profile(engine);
  ASSERT_TRUE(is_ok(profile.add(tokens)));
  ASSERT_TRUE(is_ok(profile.add(tokens)));
  const auto hottest = profile.hottest(10'000);
  ASSERT_TRUE(is_ok(hottest));
  const auto rows = [&](const Engine& from) {
    Session session(from);
    EXPECT_TRUE(is_ok(session.advance(tokens)));
    std::string raw(tokens.size() * 6 * 33, '\0');
    EXPECT_TRUE(
        is_ok(session.lookup(14, {OutputFormat::raw, std::as_writable_bytes(std::span(raw)), 0})));
    return raw;
  };
  const std::string expected = rows(plain);
  std::uint64_t last = 0;
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(rows(engine), expected);
  });
  ASSERT_TRUE(is_ok(engine.memory()->warm(*hottest, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, hottest->size());
    last = done;
  })));
  other.join();
  EXPECT_EQ(last, hottest->size());
  // From now on every n-gram is a hit, and no file is read.
  const TableStats before = engine.memory()->stats(1);
  EXPECT_EQ(rows(engine), expected);
  const TableStats after = engine.memory()->stats(1);
  EXPECT_EQ(after.reads, before.reads);
  for (std::size_t order = 0; order < 3; ++order) {
    EXPECT_EQ(after.orders[order].hits - before.orders[order].hits,
              after.orders[order].unique - before.orders[order].unique);
  }
}

TEST_F(HotSet, RefusesWhatCannotBeWarmed) {
  const Engine uncached = open(Tier::mmap, 0);
  EXPECT_TRUE(fails(uncached.memory()->warm({}), Code::invalid_argument, "no cache"));
  const Engine engine = open();
  const std::vector<TableNgram> bad_table = {{1, 2, 2}};
  const std::vector<TableNgram> bad_order = {{1, 0, 5}};
  const std::vector<TableNgram> good = {{1, 0, 2}};
  EXPECT_TRUE(fails(engine.memory()->warm(bad_table), Code::out_of_range, "0..1"));
  EXPECT_TRUE(fails(engine.memory()->warm(bad_order), Code::out_of_range, "2..4"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(
      fails(engine.memory()->warm(good, {}, stop.get_token()), Code::unavailable, "after 0 of 1"));
}

}  // namespace
}  // namespace engram
