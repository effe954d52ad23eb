// config.json in all the shapes it comes in.
#include <gtest/gtest.h>

#include "engram/checkpoint.hpp"

#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

Result<ModelConfig> parse(const std::string& json) {
  return ModelConfig::from_json(json, "c.json");
}

std::string with(const std::string& name, const std::string& value) {
  test::TinyModel model;
  model.config[name] = value;
  return model.config_json();
}

std::string without(const std::string& name) {
  test::TinyModel model;
  model.config.erase(name);
  return model.config_json();
}

TEST(ModelConfig, ReadsFieldsFlatOrInTextConfig) {
  const test::TinyModel model;
  for (const std::string& json :
       {model.config_json(),
        R"({"model_type":"deepseek_v41","text_config":)" + model.config_json() + "}"}) {
    const auto config = parse(json);
    ASSERT_TRUE(is_ok(config));
    EXPECT_EQ(config->layer_ids, (std::vector<std::int64_t>{1, 14}));
    EXPECT_EQ(config->num_embeddings, (std::vector<std::int64_t>{660, 864}));
    EXPECT_EQ(config->pad_token_id, 2);
    EXPECT_EQ(config->norm_eps, 1e-20);
    EXPECT_EQ(config->embedding_dim(), 192);
  }
}

TEST(ModelConfig, TakesBothSpellingsOfAField) {
  test::TinyModel model;
  model.config.erase("engram_pad_token_id");
  model.config.erase("hidden_size");
  model.config.erase("rms_norm_eps");
  model.config.erase("model_type");
  model.config["engram_pad_id"] = "3";
  model.config["dim"] = "16";
  model.config["norm_eps"] = "1e-6";
  const auto config = parse(model.config_json());
  ASSERT_TRUE(is_ok(config));
  EXPECT_EQ(config->pad_token_id, 3);
  EXPECT_EQ(config->hidden_dim, 16);
  EXPECT_EQ(config->norm_eps, 1e-6);
}

TEST(ModelConfig, RefusesSpellingsThatContradict) {
  EXPECT_TRUE(fails(parse(with("engram_pad_id", "3")), Code::corrupt,
                    "'engram_pad_token_id' is 2 but 'engram_pad_id' is 3"));
  EXPECT_TRUE(fails(parse(R"({"text_config":{"hc_mult":3},"hc_mult":4,)" +
                          test::TinyModel().config_json().substr(1)),
                    Code::corrupt, "hc_mult"));
}

TEST(ModelConfig, GoesByTheExactModelType) {
  EXPECT_TRUE(is_ok(parse(with("model_type", R"("deepseek_v41_text")"))));
  EXPECT_TRUE(fails(parse(with("model_type", R"("deepseek_v4")")), Code::unsupported,
                    "found 'deepseek_v4'"));
  EXPECT_TRUE(fails(parse(with("model_type", R"("deepseek_v41x")")), Code::unsupported, "v41x"));
}

TEST(ModelConfig, SaysWhenThereIsNoEngram) {
  EXPECT_TRUE(fails(parse(with("engram_layer_ids", "[]")), Code::not_found, "no Engram"));
  EXPECT_TRUE(fails(parse(without("engram_layer_ids")), Code::not_found, "no Engram"));
  EXPECT_TRUE(fails(parse(with("engram_layer_ids", "null")), Code::not_found, "no Engram"));
}

TEST(ModelConfig, NamesEveryMissingField) {
  for (const std::string name :
       {"engram_max_ngram_size", "engram_n_heads", "engram_head_dim", "engram_vocab_size",
        "engram_compressed_vocab_size", "engram_pad_token_id", "vocab_size", "hidden_size",
        "hc_mult", "rms_norm_eps"}) {
    EXPECT_TRUE(fails(parse(without(name)), Code::corrupt, "field '" + name + "' is missing"));
  }
}

TEST(ModelConfig, RefusesValuesOutsideTheirRange) {
  EXPECT_TRUE(fails(parse(with("engram_n_heads", "0")), Code::corrupt, "engram_n_heads"));
  EXPECT_TRUE(fails(parse(with("engram_head_dim", "-32")), Code::corrupt, "engram_head_dim"));
  EXPECT_TRUE(fails(parse(with("engram_max_ngram_size", "9")), Code::corrupt, "1..8"));
  EXPECT_TRUE(fails(parse(with("hc_mult", "4.0")), Code::corrupt, "found a fraction"));
  EXPECT_TRUE(fails(parse(with("hc_mult", "\"4\"")), Code::corrupt, "found a string"));
  EXPECT_TRUE(fails(parse(with("engram_pad_token_id", "16")), Code::corrupt, "a token id"));
  EXPECT_TRUE(fails(parse(with("rms_norm_eps", "-1")), Code::corrupt, "rms_norm_eps"));
  EXPECT_TRUE(fails(parse(with("engram_num_embeddings", "[660]")), Code::corrupt, "2 counts"));
  EXPECT_TRUE(fails(parse(with("engram_layer_ids", "[1,\"14\"]")), Code::corrupt, "an integer"));
  EXPECT_TRUE(fails(parse("{\"hc_mult\":1,\"hc_mult\":2}"), Code::corrupt, "appears twice"));
  EXPECT_TRUE(fails(parse("[]"), Code::corrupt, "an object"));
}

}  // namespace
}  // namespace engram
