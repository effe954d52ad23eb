// The compressed map: rules, mistakes to refuse, and the real tokenizer.
#include "engram/token_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/golden.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
using Ids = std::vector<CompressedId>;

std::string json_string(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    static const char* const kDigits = "0123456789abcdef";
    if (byte < 0x20) {
      quoted += std::string("\\u00") + kDigits[byte >> 4] + kDigits[byte & 15];
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "\"";
}

// A tokenizer of these tokens in id order.
std::string tokenizer(const std::vector<std::string>& tokens, const std::string& decoder = "null",
                      const std::string& added = "") {
  std::string vocab;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    vocab += (id == 0 ? "" : ",") + json_string(tokens[id]) + ":" + std::to_string(id);
  }
  return R"({"added_tokens":[)" + added + R"(],"decoder":)" + decoder +
         R"(,"model":{"type":"WordLevel","vocab":{)" + vocab + "}}}";
}

const std::string kByteLevel = R"({"type":"ByteLevel"})";

Ids ids_of(const std::string& json) {
  const auto map = TokenMap::from_tokenizer_json(json, "t");
  EXPECT_TRUE(is_ok(map));
  return map ? Ids(map->ids().begin(), map->ids().end()) : Ids{};
}

TEST(TokenMap, KeepsALoneSpaceThroughStrip) {
  EXPECT_EQ(ids_of(tokenizer({" ", "  ", "\n", "\u3000", "\u0301", "A", "a", "\u00c1"})),
            (Ids{0, 0, 0, 0, 1, 2, 2, 2}));
}

TEST(TokenMap, MatchesTheFrozenToyVocabulary) {
  const JsonElement vector = test::golden("nemo-toy");
  std::vector<std::string> tokens;
  for (const JsonElement token :
       JsonArray(test::at(vector, {"inputs", "vocab"}).get_array().value_unsafe())) {
    tokens.emplace_back(token.get_string().value_unsafe());
  }
  EXPECT_EQ(ids_of(tokenizer(tokens)),
            test::flat<CompressedId>(test::at(vector, {"expect", "token_map"})));
}

TEST(TokenMap, SharesOneDictionaryBetweenRawAndFoldedKeys) {
  // Token 0 is the lone byte C2, spelled U+00C2; token 1 is a real U+00B7 and token 2 the lone byte
  // B7, whose raw spelling is the same character.
  EXPECT_EQ(ids_of(tokenizer({"\u00c2", "\u00c2\u00b7", "\u00b7"}, kByteLevel)), (Ids{0, 1, 1}));
}

TEST(TokenMap, KeysReplacementCharactersByTheirSpelling) {
  // Two tokens that really spell U+FFFD, once with a space: as text both would fold to one key.
  EXPECT_EQ(ids_of(tokenizer({"\u00ef\u00bf\u00bd", "\u0120\u00ef\u00bf\u00bd"}, kByteLevel)),
            (Ids{0, 1}));
}

TEST(TokenMap, DecodesAddedTokensAsTheyAreSpelled) {
  EXPECT_EQ(ids_of(tokenizer({"a", "b"}, kByteLevel,
                             R"({"id":2,"content":"<\uff5cA\uff5c>"},{"id":3,"content":"<|a|>"})")),
            (Ids{0, 1, 2, 2}));
}

TEST(TokenMap, RefusesWhatWouldMakeAWrongMap) {
  const auto refused = [](const std::string& json, Code code, const std::string& words) {
    EXPECT_TRUE(fails(TokenMap::from_tokenizer_json(json, "t.json"), code, words));
  };
  refused("{", Code::corrupt, "t.json: not valid JSON");
  refused("[]", Code::corrupt, "'model' is missing");
  refused(R"({"model":{"vocab":[]}})", Code::corrupt, "expected an object, found an array");
  refused(R"({"model":{"vocab":{}}})", Code::corrupt, "empty");
  refused(R"({"model":{"vocab":{"a":0,"b":2}}})", Code::corrupt, "id 1 of 3 has no token");
  refused(R"({"model":{"vocab":{"a":0,"b":0}}})", Code::corrupt, "id 0 has two tokens");
  refused(R"({"model":{"vocab":{"a":0,"a":0}}})", Code::corrupt, "appears twice");
  refused(R"({"model":{"vocab":{"a":-1}}})", Code::corrupt, "id -1 is outside");
  refused(R"({"model":{"vocab":{"a":9999999999}}})", Code::corrupt, "outside");
  refused(R"({"model":{"vocab":{"a":0.5}}})", Code::corrupt, "expected an integer");
  refused(tokenizer({"a", "b"}, "null", R"({"id":1,"content":"a"})"), Code::corrupt, "two ids");
  for (const std::string type : {"ByteFallback", "Metaspace", "WordPiece", "BPEDecoder", "CTC"}) {
    refused(tokenizer({"a"}, R"({"type":")" + type + R"("})"), Code::unsupported, type);
    refused(tokenizer({"a"}, R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":")" + type +
                                 R"("}]})"),
            Code::unsupported, type);
  }
}

TEST(TokenMap, AcceptsASequenceOfKnownDecoders) {
  EXPECT_EQ(
      ids_of(tokenizer({"\u0120A", "a"},
                       R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Fuse"}]})")),
      (Ids{0, 0}));
}

TEST(TokenMap, SavesAndLoads) {
  const test::TemporaryDirectory folder;
  const auto map = TokenMap::from_ids({0, 1, 1, 0, 2}, "here");
  ASSERT_TRUE(is_ok(map));
  EXPECT_EQ(map->compressed_size(), 3);
  ASSERT_TRUE(is_ok(map->save(folder / "m")));
  EXPECT_EQ(test::read_file(folder / "m"),
            std::string("\0\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0", 20));
  const auto loaded = TokenMap::load(folder / "m");
  ASSERT_TRUE(is_ok(loaded));
  EXPECT_EQ(loaded->sha256(), map->sha256());
  EXPECT_TRUE(fails(map->save(folder / "m"), Code::invalid_argument, "refusing"));
}

TEST(TokenMap, RefusesFilesThatAreNotMaps) {
  const test::TemporaryDirectory folder;
  test::write_file(folder / "odd", "12345");
  EXPECT_TRUE(fails(TokenMap::load(folder / "odd"), Code::corrupt, "multiple of 4"));
  test::write_file(folder / "empty", "");
  EXPECT_TRUE(fails(TokenMap::load(folder / "empty"), Code::corrupt, "empty"));
  EXPECT_TRUE(fails(TokenMap::from_ids({0, 2}, "m"), Code::corrupt, "entry 1: expected 0..1"));
  EXPECT_TRUE(fails(TokenMap::from_ids({0, -1}, "m"), Code::corrupt, "found -1"));
}

TEST(TokenMap, CompressesOrRefusesWithoutATrace) {
  const auto map = TokenMap::from_ids({0, 1, 1, 0, 2}, "here");
  ASSERT_TRUE(is_ok(map));
  Ids out(3, 77);
  const std::vector<std::uint8_t> mask = {1, 0, 1};
  ASSERT_TRUE(is_ok(map->compress(std::vector<TokenId>{4, 2, 2}, mask, out)));
  EXPECT_EQ(out, (Ids{2, kDead, 1}));
  out.assign(3, 77);
  // Negative ids would index from the end in Python; too large ones past it.
  for (const TokenId bad : {-1, 5, 2147483647}) {
    EXPECT_TRUE(fails(map->compress(std::vector<TokenId>{0, bad, 1}, {}, out), Code::out_of_range,
                      "token 1 of 3: expected an id in 0..4"));
    EXPECT_EQ(out, Ids(3, 77));
  }
  // At a masked position the same ids are a barrier, whatever a runtime puts there.
  for (const TokenId placeholder : {-1, 5, 2147483647}) {
    const std::vector<std::uint8_t> masked = {1, 0, 1};
    ASSERT_TRUE(is_ok(map->compress(std::vector<TokenId>{0, placeholder, 1}, masked, out)));
    EXPECT_EQ(out, (Ids{0, kDead, 1}));
  }
  EXPECT_TRUE(fails(map->compress(std::vector<TokenId>{0, 1}, mask, out), Code::invalid_argument,
                    "lengths must agree"));
}

TEST(TokenMap, TellsMapsOfEqualSizeApart) {
  const auto a = TokenMap::from_tokenizer_json(tokenizer({"a", "b", "B"}), "a");
  const auto b = TokenMap::from_tokenizer_json(tokenizer({"a", "A", "b"}), "b");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->compressed_size(), b->compressed_size());
  EXPECT_NE(a->sha256(), b->sha256());
}

TEST(TokenMap, GivesThePublishedDigestForTheRealVocabulary) {
  const std::string path = test::shared_data("data/v41-stand-in-tokenizer.json");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no real tokenizer at " << path;
  const JsonElement expect = test::at(test::golden("token-map-sha256"), {"expect"});
  const auto map = TokenMap::from_tokenizer_file(path);
  ASSERT_TRUE(is_ok(map));
  EXPECT_EQ(map->ids().size(), 129280u);
  EXPECT_EQ(map->compressed_size(), 99092);
  EXPECT_EQ(map->sha256(), test::at(expect, {"sha256_int32_le"}).get_string().value_unsafe());
  EXPECT_EQ(map->sha256(), kV41TokenMapSha256);
  EXPECT_EQ(map->ids()[2], 2);
  const auto first = test::flat<CompressedId>(test::at(expect, {"first_ids"}));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), map->ids().begin()));
  EXPECT_EQ(*std::max_element(map->ids().begin(), map->ids().begin() + 128000), 97812 - 1);
  EXPECT_EQ(map->ids()[118], map->ids()[1845]);
  EXPECT_EQ(map->ids()[201], 174);
}

}  // namespace
}  // namespace engram
