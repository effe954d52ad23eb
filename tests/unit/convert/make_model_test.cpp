// Procedural models: the rule of their rows, and that they open as what they claim.
#include <gtest/gtest.h>

#include <filesystem>

#include "engram/convert.hpp"
#include "engram/engine.hpp"

#include "base/bfloat16.hpp"
#include "convert/safetensors_writer.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

namespace fs = std::filesystem;

class MakeModel : public ::testing::Test {
 protected:
  void SetUp() override {
    model_.write(source_);
    recipe_.tokenizer_path = source_ / "tokenizer.json";
    recipe_.engram_vocab_size = 100;
    recipe_.hidden_dim = 32;
    recipe_.copies = 2;
    recipe_.seed = 5;
  }

  std::vector<std::byte> raw_rows(const Engine& engine, int table, const std::vector<RowId>& rows,
                                  OutputFormat format = OutputFormat::raw) {
    std::vector<std::byte> bytes(rows.size() * engine.memory()->output_bytes(table, format));
    LookupWorkspace workspace;
    EXPECT_TRUE(is_ok(engine.memory()->lookup_rows(table, rows, {format, bytes, 0}, workspace)));
    return bytes;
  }

  test::TemporaryDirectory source_;
  test::TemporaryDirectory folder_;
  test::TinyModel model_;
  ModelRecipe recipe_;
};

TEST_F(MakeModel, WritesTheRowsOfTheRule) {
  // Row 0 of layer 1 under seed 0, from an independent computation of the documented rule.
  const auto row = procedural_row(0, 1, 0);
  ASSERT_EQ(row.size(), 264u);
  std::string head;
  for (std::size_t i = 0; i < 8; ++i) {
    head += "0123456789abcdef"[static_cast<int>(row[i]) >> 4];
    head += "0123456789abcdef"[static_cast<int>(row[i]) & 15];
  }
  EXPECT_EQ(head, "6d3f37d71c7630ce");
  for (std::size_t i = 0; i < 256; ++i) EXPECT_NE(static_cast<int>(row[i]) & 0x7F, 0x7F);
  for (std::size_t i = 256; i < 264; ++i) {
    EXPECT_GE(static_cast<int>(row[i]), 0x76);
    EXPECT_LE(static_cast<int>(row[i]), 0x78);
  }
}

TEST_F(MakeModel, OpensAndServesEveryRow) {
  ASSERT_TRUE(is_ok(make_model(folder_ / "m", recipe_)));
  const auto engine = Engine::open(folder_ / "m");
  ASSERT_TRUE(is_ok(engine));
  for (int table = 0; table < 2; ++table) {
    const LayerHash& layer = engine->hasher().spec().layers()[static_cast<std::size_t>(table)];
    for (RowId row = 0; row < static_cast<RowId>(layer.row_count); row += 97) {
      EXPECT_EQ(raw_rows(*engine, table, {row}), procedural_row(5, layer.layer_id, row));
    }
  }
  EXPECT_EQ(engine->checkpoint().config().token_map_sha256, engine->token_map().sha256());
}

TEST_F(MakeModel, StoresTheSameValuesAsBfloat16) {
  ASSERT_TRUE(is_ok(make_model(folder_ / "fp8", recipe_)));
  recipe_.bf16 = true;
  ASSERT_TRUE(is_ok(make_model(folder_ / "bf16", recipe_)));
  const auto fp8 = Engine::open(folder_ / "fp8");
  const auto bf16 = Engine::open(folder_ / "bf16");
  ASSERT_TRUE(is_ok(fp8));
  ASSERT_TRUE(is_ok(bf16));
  EXPECT_EQ(bf16->checkpoint().tables()[0].layout.format, RowFormat::bf16);
  const std::vector<RowId> rows = {0, 3, 2399};
  EXPECT_EQ(raw_rows(*fp8, 1, rows, OutputFormat::bf16),
            raw_rows(*bf16, 1, rows, OutputFormat::bf16));
  EXPECT_EQ(raw_rows(*fp8, 1, rows, OutputFormat::f32),
            raw_rows(*bf16, 1, rows, OutputFormat::f32));
  // And the gate: the same products, summed in the same order.
  const std::vector<TokenId> tokens = {5, 6, 7};
  std::vector<float> streams[2];
  const Engine* engines[2] = {&*fp8, &*bf16};
  for (int i = 0; i < 2; ++i) {
    streams[i].assign(3 * 2 * 32, 0.5f);
    Session session(*engines[i]);
    ASSERT_TRUE(is_ok(session.advance(tokens)));
    ASSERT_TRUE(is_ok(session.apply(1, streams[i], Rounding::reference)));
  }
  for (std::size_t i = 0; i < streams[0].size(); ++i) {
    EXPECT_NEAR(streams[0][i], streams[1][i], 0x1p-7 * std::abs(streams[0][i]));
  }
}

TEST_F(MakeModel, WritesOnlyTheRowsOfTheGivenIdsWhenSparse) {
  recipe_.sparse = true;
  recipe_.ids = {5, 6, 7};
  ASSERT_TRUE(is_ok(make_model(folder_ / "m", recipe_)));
  const auto engine = Engine::open(folder_ / "m");
  ASSERT_TRUE(is_ok(engine));
  Session session(*engine);
  ASSERT_TRUE(is_ok(session.advance(recipe_.ids)));
  std::vector<RowId> rows(3 * 24);
  ASSERT_TRUE(is_ok(session.rows(14, rows)));
  std::vector<bool> real(engine->hasher().spec().layers()[1].row_count);
  for (const RowId row : rows) {
    real[static_cast<std::size_t>(row)] = true;
    EXPECT_EQ(raw_rows(*engine, 1, {row}), procedural_row(5, 14, row));
  }
  const auto hole = std::find(real.begin(), real.end(), false) - real.begin();
  EXPECT_EQ(raw_rows(*engine, 1, {hole}), std::vector<std::byte>(264));
}

TEST_F(MakeModel, RefusesToOverwriteAndLeavesNothingHalfMade) {
  fs::create_directory(folder_ / "taken");
  test::write_file(folder_ / "taken/file", "precious");
  EXPECT_TRUE(fails(make_model(folder_ / "taken", recipe_), Code::invalid_argument, "refusing"));
  EXPECT_EQ(test::read_file(folder_ / "taken/file"), "precious");
  recipe_.tokenizer_path = folder_ / "none";
  EXPECT_TRUE(fails(make_model(folder_ / "m", recipe_), Code::not_found, "none"));
  EXPECT_TRUE(fails(make_model(folder_ / "no/such/parent", recipe_), Code::not_found, "parent"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
  fs::create_directory(folder_ / "empty");
  recipe_.tokenizer_path = source_ / "tokenizer.json";
  EXPECT_TRUE(is_ok(make_model(folder_ / "empty/", recipe_)));
}

TEST_F(MakeModel, RefusesRecipesThatMakeNoModel) {
  recipe_.ids = {1};
  EXPECT_TRUE(fails(make_model(folder_ / "m", recipe_), Code::invalid_argument, "sparse"));
  recipe_.ids = {};
  recipe_.copies = 0;
  EXPECT_TRUE(fails(make_model(folder_ / "m", recipe_), Code::invalid_argument, "copies"));
  recipe_.copies = 2;
  recipe_.layer_ids = {1, 1};
  EXPECT_TRUE(fails(make_model(folder_ / "m", recipe_), Code::invalid_argument, "distinct"));
  recipe_.layer_ids = {1};
  recipe_.sparse = true;
  recipe_.ids = {16};
  EXPECT_TRUE(fails(make_model(folder_ / "m", recipe_), Code::out_of_range, "found 16"));
}

TEST(SafetensorsWriter, GivesTheReleasesSizes) {
  const auto shard = [](int layer, std::uint64_t rows) {
    const std::string prefix = "layers." + std::to_string(layer) + ".engram.";
    return plan_safetensors({{prefix + "embed.weight", "F8_E4M3", {rows, 256}, rows * 256},
                             {prefix + "embed.scale", "F8_E8M0", {rows, 8}, rows * 8},
                             {prefix + "wkv.weight", "F8_E4M3", {25600, 6144}, 157286400},
                             {prefix + "wkv.scale", "F8_E8M0", {800, 192}, 153600},
                             {prefix + "q_weight", "BF16", {4, 5120}, 40960},
                             {prefix + "k_weight", "BF16", {4, 5120}, 40960}});
  };
  EXPECT_EQ(shard(1, 384'006'168).file_bytes, 101'535'150'936u);
  EXPECT_EQ(shard(14, 384'016'682).file_bytes, 101'537'926'640u);
  EXPECT_EQ(shard(1, 384'006'168).tensors[1].offset_bytes, 98'305'579'672u);
}

}  // namespace
}  // namespace engram
