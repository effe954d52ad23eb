// The whole path on a tiny model: any way to feed a timeline, and every way to refuse a model.
#include "engram/engine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/bfloat16.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
using test::TinyModel;
using Tokens = std::vector<TokenId>;
using Mask = std::vector<std::uint8_t>;

constexpr std::size_t kStream = TinyModel::kCopies * TinyModel::kHidden;

class EngineTest : public ::testing::Test {
 protected:
  Result<Engine> open(const EngineOptions& options = {}) {
    model_.write(folder_);
    return Engine::open(folder_.path(), options);
  }

  Engine open_good(const EngineOptions& options = {}) {
    auto engine = open(options);
    EXPECT_TRUE(is_ok(engine));
    return *std::move(engine);
  }

  test::TemporaryDirectory folder_;
  TinyModel model_;
};

std::vector<RowId> rows_of(const Session& session, std::int64_t layer) {
  std::vector<RowId> rows(session.length() * 6);
  EXPECT_TRUE(is_ok(session.rows(layer, rows)));
  return rows;
}

std::vector<float> stream_of(std::size_t tokens, std::size_t first = 0) {
  std::vector<float> stream(tokens * kStream);
  for (std::size_t i = 0; i < stream.size(); ++i) {
    stream[i] = std::sin(static_cast<float>(first * kStream + i));
  }
  return stream;
}

TEST_F(EngineTest, ReproducesTheFixtureFromTokens) {
  const Engine engine = open_good();
  Session session(engine);
  ASSERT_TRUE(is_ok(session.advance(Tokens{5, 6, 7})));
  ASSERT_TRUE(is_ok(session.advance(Tokens{8})));
  EXPECT_EQ(rows_of(session, 1), (std::vector<RowId>{100, 117, 233, 399, 489, 602}));
  EXPECT_EQ(rows_of(session, 14), (std::vector<RowId>{106, 211, 383, 413, 603, 825}));
  EXPECT_EQ(session.position(), 4u);
  std::vector<RowId> rows(6);
  EXPECT_TRUE(fails(session.rows(2, rows), Code::not_found, "layers that do: 1, 14"));
}

// Everything a timeline gives at both layers when fed in these chunks.
struct Outcome {
  std::vector<RowId> rows;
  std::vector<float> stream;
  bool operator==(const Outcome&) const = default;
};

Outcome feed(const Engine& engine, const Tokens& tokens, const Mask& mask,
             const std::vector<std::size_t>& chunks) {
  Outcome outcome;
  outcome.stream = stream_of(tokens.size());
  Session session(engine);
  std::size_t first = 0;
  for (const std::size_t count : chunks) {
    EXPECT_TRUE(is_ok(session.advance(std::span(tokens).subspan(first, count),
                                      std::span(mask).subspan(first, count))));
    for (const std::int64_t layer : {1, 14}) {
      const auto rows = rows_of(session, layer);
      outcome.rows.insert(outcome.rows.end(), rows.begin(), rows.end());
      EXPECT_TRUE(is_ok(
          session.apply(layer, std::span(outcome.stream).subspan(first * kStream, count * kStream),
                        Rounding::reference)));
    }
    first += count;
  }
  return outcome;
}

TEST_F(EngineTest, GivesTheSameResidualForPrefillAndSingleSteps) {
  const Engine engine = open_good();
  Tokens tokens(37);
  Mask mask(37, 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7 % 16);
  mask[4] = mask[5] = mask[20] = 0;
  const auto whole = feed(engine, tokens, mask, {37});
  std::vector<std::size_t> steps(23, 1);
  steps[0] = 15;
  EXPECT_EQ(feed(engine, tokens, mask, steps).stream, whole.stream);
  EXPECT_EQ(feed(engine, tokens, mask, {1, 2, 3, 0, 31}).stream, whole.stream);
}

TEST_F(EngineTest, LeavesMaskedPositionsAlone) {
  const Engine engine = open_good();
  Session session(engine);
  ASSERT_TRUE(is_ok(session.advance(Tokens{5, 9, 7}, Mask{1, 0, 1})));
  auto stream = stream_of(3);
  const auto before = stream;
  ASSERT_TRUE(is_ok(session.apply(1, stream, Rounding::reference)));
  EXPECT_NE(stream[0], before[0]);
  EXPECT_EQ(std::memcmp(stream.data() + kStream, before.data() + kStream, kStream * 4), 0);
  // The bfloat16 stream gives the same numbers, and keeps even a signalling NaN at masked places.
  std::vector<std::uint16_t> narrow;
  for (const float value : before) narrow.push_back(bfloat16_from_float(value));
  narrow[kStream + 3] = 0x7F81;
  std::vector<float> widened;
  for (const std::uint16_t bits : narrow) widened.push_back(float_from_bfloat16(bits));
  ASSERT_TRUE(is_ok(session.apply(1, widened, Rounding::reference)));
  ASSERT_TRUE(is_ok(session.apply(1, narrow)));
  EXPECT_EQ(narrow[kStream + 3], 0x7F81);
  for (std::size_t i = 0; i < kStream; ++i) EXPECT_EQ(float_from_bfloat16(narrow[i]), widened[i]);
}

TEST_F(EngineTest, ForgetsRejectedDraftsAndForks) {
  const Engine engine = open_good();
  Session session(engine);
  ASSERT_TRUE(is_ok(session.advance(Tokens{5, 6, 7})));
  for (std::size_t accepted = 0; accepted <= 4; ++accepted) {
    Session fork = session;
    ASSERT_TRUE(is_ok(fork.prepare(Tokens{1, 2, 3, 4})));
    EXPECT_EQ(fork.position(), 3u);
    ASSERT_TRUE(is_ok(fork.commit(accepted)));
    EXPECT_EQ(fork.position(), 3u + accepted);
    ASSERT_TRUE(is_ok(fork.advance(Tokens{9})));
    Session whole(engine);
    Tokens all = {5, 6, 7, 1, 2, 3, 4};
    all.resize(3 + accepted);
    all.push_back(9);
    ASSERT_TRUE(is_ok(whole.advance(all)));
    const auto rows = rows_of(whole, 14);
    EXPECT_EQ(rows_of(fork, 14), std::vector<RowId>(rows.end() - 6, rows.end()));
  }
  // The original has seen none of it.
  ASSERT_TRUE(is_ok(session.advance(Tokens{8})));
  EXPECT_EQ(rows_of(session, 1), (std::vector<RowId>{100, 117, 233, 399, 489, 602}));
}

TEST_F(EngineTest, ReplacesAPreparedChunkAndRefusesBadCommits) {
  const Engine engine = open_good();
  Session session(engine);
  EXPECT_TRUE(fails(session.commit(0), Code::invalid_argument, "expected up to 0"));
  ASSERT_TRUE(is_ok(session.prepare(Tokens{9, 9, 9})));
  ASSERT_TRUE(is_ok(session.prepare(Tokens{5, 6, 7})));
  EXPECT_TRUE(fails(session.commit(4), Code::invalid_argument, "expected up to 3 prepared tokens"));
  ASSERT_TRUE(is_ok(session.commit(3)));
  EXPECT_TRUE(fails(session.commit(0), Code::invalid_argument, "expected up to 0"));
  ASSERT_TRUE(is_ok(session.advance(Tokens{8})));
  EXPECT_EQ(rows_of(session, 1), (std::vector<RowId>{100, 117, 233, 399, 489, 602}));
}

TEST_F(EngineTest, ChangesNothingOnBadTokens) {
  const Engine engine = open_good();
  Session session(engine);
  ASSERT_TRUE(is_ok(session.advance(Tokens{5, 6, 7})));
  const auto before = rows_of(session, 1);
  for (const TokenId bad : {-1, 16}) {
    EXPECT_TRUE(fails(session.advance(Tokens{8, bad}), Code::out_of_range, "token 1 of 2"));
    EXPECT_TRUE(fails(session.prepare(Tokens{bad}), Code::out_of_range, "token 0 of 1"));
    EXPECT_EQ(rows_of(session, 1), before);
    EXPECT_EQ(session.position(), 3u);
  }
  EXPECT_TRUE(fails(session.advance(Tokens{8}, Mask{1, 1}), Code::invalid_argument, "lengths"));
  ASSERT_TRUE(is_ok(session.advance(Tokens{8})));
  EXPECT_EQ(rows_of(session, 1), (std::vector<RowId>{100, 117, 233, 399, 489, 602}));
}

TEST_F(EngineTest, ServesManySessionsAtOnce) {
  const Engine engine = open_good();
  Tokens tokens(64);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 5 % 16);
  const Mask mask(64, 1);
  const auto expected = feed(engine, tokens, mask, {64});
  std::vector<Outcome> outcomes(3);
  std::vector<std::thread> threads;
  for (Outcome& outcome : outcomes) {
    threads.emplace_back([&] { outcome = feed(engine, tokens, mask, {16, 16, 16, 16}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.stream, expected.stream);
}

TEST_F(EngineTest, TakesWhatWasPrefetchedAndForgetsTheRest) {
  EngineOptions options;
  options.store.tier = Tier::direct;
  const Engine engine = open_good(options);
  Session plain(engine);
  Session session(engine);
  const Tokens tokens = {5, 6, 7, 1, 2, 3};
  const auto rows = [&](Session& from, std::int64_t layer) {
    std::vector<std::uint16_t> values(from.length() * TinyModel::kInputs);
    EXPECT_TRUE(is_ok(
        from.lookup(layer, {OutputFormat::bf16, std::as_writable_bytes(std::span(values)), 0})));
    return values;
  };
  for (std::size_t i = 0; i + 2 <= tokens.size(); i += 2) {
    const auto pair = std::span(tokens).subspan(i, 2);
    ASSERT_TRUE(is_ok(plain.advance(pair)));
    // Drafts that are replaced, and a copy's drafts: neither leaves a trace.
    ASSERT_TRUE(is_ok(session.prepare(Tokens{9, 9, 9})));
    ASSERT_TRUE(is_ok(session.prefetch(Priority::whenever)));
    Session draft(session);
    ASSERT_TRUE(is_ok(draft.prefetch(Priority::whenever)));
    ASSERT_TRUE(is_ok(session.advance(pair)));
    ASSERT_TRUE(is_ok(session.prefetch()));
    ASSERT_TRUE(is_ok(session.prefetch()));  // begun already
    EXPECT_EQ(rows(session, 14), rows(plain, 14));
    EXPECT_EQ(rows(session, 1), rows(plain, 1));
    EXPECT_EQ(rows(session, 1), rows(plain, 1));  // taken before: a plain lookup
    draft = plain;
    EXPECT_EQ(rows(draft, 1), rows(plain, 1));
  }
  EngineOptions addresses;
  addresses.load = Load::addresses;
  const Engine tableless = open_good(addresses);
  Session without(tableless);
  EXPECT_TRUE(fails(without.prefetch(), Code::unavailable, "without tables"));
}

TEST_F(EngineTest, LoadsOnlyWhatIsAskedFor) {
  const Engine rows = open_good({.load = Load::rows});
  Session session(rows);
  ASSERT_TRUE(is_ok(session.advance(Tokens{5})));
  auto stream = stream_of(1);
  EXPECT_TRUE(fails(session.apply(1, stream, Rounding::none), Code::unavailable, "without gate"));
  for (std::size_t i = 0; i < 2; ++i) std::filesystem::remove(folder_ / TinyModel::shard_name(i));
  auto addresses = Engine::open(folder_.path(), {.load = Load::addresses});
  ASSERT_TRUE(is_ok(addresses));
  Session hashing(*addresses);
  ASSERT_TRUE(is_ok(hashing.advance(Tokens{5})));
  EXPECT_EQ(rows_of(hashing, 1), (std::vector<RowId>{5, 161, 215, 399, 432, 615}));
  std::vector<std::byte> bytes(6 * 64);
  EXPECT_TRUE(fails(hashing.lookup(1, {OutputFormat::bf16, bytes, 0}), Code::unavailable,
                    "without tables"));
}

TEST_F(EngineTest, RefusesAnotherTokenizer) {
  model_.tokens[3] = "A";  // folds to "a": one class fewer
  EXPECT_TRUE(fails(open(), Code::corrupt, "expected 16 compressed ids"));
  model_ = TinyModel();
  // Another map of equal size: ids 3 and 4 fold together where 1 and 2 did.
  model_.tokens[2] = "B";
  model_.config["engram_compressed_vocab_size"] = "15";
  const auto good = open();
  ASSERT_TRUE(is_ok(good));
  const std::string digest = good->token_map().sha256();
  EXPECT_TRUE(is_ok(open({.token_map_sha256 = digest})));
  model_.tokens[2] = "c";
  model_.tokens[4] = "D";
  EXPECT_TRUE(is_ok(open()));
  EXPECT_TRUE(fails(open({.token_map_sha256 = digest}), Code::corrupt,
                    "another tokenizer of equal size: expected token map SHA-256 " + digest));
  model_.config["engram_token_map_sha256"] = "\"" + digest + "\"";
  EXPECT_TRUE(fails(open(), Code::corrupt, "another tokenizer of equal size"));
}

TEST_F(EngineTest, RefusesAMissingTokenizerAndMissingGates) {
  model_.write(folder_);
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_TRUE(fails(Engine::open(folder_.path()), Code::not_found, "no tokenizer.json"));
  std::erase_if(model_.shards[1],
                [](const test::Tensor& t) { return t.name.ends_with("wkv.weight"); });
  EXPECT_TRUE(
      fails(open(), Code::not_found, "gate weights are missing: layers.14.engram.wkv.weight"));
  EXPECT_TRUE(is_ok(open({.load = Load::rows})));
}

TEST_F(EngineTest, RefusesNanGateWeights) {
  model_.tensor("layers.14.engram.wkv.weight").bytes[5] = '\x7f';
  EXPECT_TRUE(fails(open(), Code::corrupt, "layer 14: gate: wkv: element 5 is NaN"));
}

TEST(Engine, ExpectsThePublishedDigestOfTheReleasedVocabulary) {
  ModelConfig config;
  EXPECT_EQ(expected_token_map_sha256("", config), "");
  EXPECT_EQ(expected_token_map_sha256("x", config), "x");
  config.vocab_size = 129280;
  config.compressed_vocab_size = 99092;
  EXPECT_EQ(expected_token_map_sha256("", config), kV41TokenMapSha256);
  config.token_map_sha256 = "y";
  EXPECT_EQ(expected_token_map_sha256("", config), "y");
}

}  // namespace
}  // namespace engram
