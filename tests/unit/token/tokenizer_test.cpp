// Text to ids on small vocabularies whose merges can be followed by hand.
#include <gtest/gtest.h>

#include "engram/token_map.hpp"

#include "tests/support/matchers.hpp"
#include "tests/support/temporary.hpp"
#include "token/byte_alphabet.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
using Ids = std::vector<TokenId>;

// All 256 bytes as ids 0..255, then "ab", "abc", "bc" and "  "; merges in the order given.
std::string tokenizer(const std::string& merges, const std::string& extra = "",
                      const std::string& added = "", const std::string& pre_tokenizer = "null") {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling = alphabet_spelling(static_cast<std::uint8_t>(byte));
    if (spelling == "\"" || spelling == "\\") spelling.insert(0, "\\");
    vocab += "\"" + spelling + "\":" + std::to_string(byte) + ",";
  }
  vocab += R"("ab":256,"abc":257,"bc":258)";
  return R"({"added_tokens":[)" + added + R"(],"normalizer":null,"pre_tokenizer":)" +
         pre_tokenizer + R"(,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
         vocab + R"(},"merges":[)" + merges + "]" + extra + "}}";
}

Ids encode(const std::string& json, const std::string& text) {
  const auto made = Tokenizer::from_json(json, "t");
  EXPECT_TRUE(is_ok(made));
  if (!made) return {};
  const auto ids = made->encode(text);
  EXPECT_TRUE(is_ok(ids));
  return ids ? *ids : Ids{};
}

TEST(Tokenizer, MergesTheLowestRankFirst) {
  EXPECT_EQ(encode(tokenizer(R"("a b","ab c","b c")"), "abc"), (Ids{257}));
  EXPECT_EQ(encode(tokenizer(R"("b c","a b")"), "abc"), (Ids{97, 258}));
  EXPECT_EQ(encode(tokenizer(R"(["a","b"],["ab","c"])"), "xabcab"), (Ids{120, 257, 256}));
}

TEST(Tokenizer, TakesAWholePieceFirstWhereMergesAreIgnored) {
  EXPECT_EQ(encode(tokenizer(R"("a b")", R"(,"ignore_merges":true)"), "abc"), (Ids{257}));
  EXPECT_EQ(encode(tokenizer(R"("a b")"), "abc"), (Ids{256, 99}));
}

TEST(Tokenizer, CutsAddedTokensOutFirstAndTakesTheLongest) {
  const std::string added =
      R"({"id":259,"content":"<x>"},{"id":260,"content":"<x>y"},{"id":261,"content":"bb","normalized":true})";
  EXPECT_EQ(encode(tokenizer(R"("a b")", "", added), "a<x>ya<x>"), (Ids{97, 260, 97, 259}));
  EXPECT_EQ(encode(tokenizer(R"("a b")", "", added), "abb"), (Ids{97, 261}));
}

TEST(Tokenizer, ReplacesBrokenUtf8) {
  EXPECT_EQ(encode(tokenizer(""), "a\xff\xe4\xbd"), (Ids{97, 0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD}));
  EXPECT_EQ(encode(tokenizer(""), ""), Ids{});
}

TEST(Tokenizer, SplitsAsItsFileSays) {
  const auto split = [](const std::string& pattern, const std::string& behavior,
                        const std::string& invert) {
    return R"({"type":"Split","pattern":{"Regex":")" + pattern + R"("},"behavior":")" + behavior +
           R"(","invert":)" + invert + "}";
  };
  const std::string merges = R"("a b","ab c")";
  EXPECT_EQ(encode(tokenizer(merges, "", "", split("b", "Isolated", "false")), "abc"),
            (Ids{97, 98, 99}));
  EXPECT_EQ(encode(tokenizer(merges, "", "", split("c", "Removed", "false")), "abcab"),
            (Ids{256, 256}));
  EXPECT_EQ(encode(tokenizer(merges, "", "", split("ab", "Removed", "true")), "abcab"),
            (Ids{256, 256}));
  EXPECT_EQ(encode(tokenizer(merges, "", "",
                             R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})"),
                   "ab"),
            (Ids{32, 256}));
  EXPECT_EQ(
      encode(tokenizer(merges, "", "", R"({"type":"Digits","individual_digits":true})"), "ab12"),
      (Ids{256, 49, 50}));
}

TEST(Tokenizer, RefusesWhatItDoesNotReproduce) {
  const auto refused = [](const std::string& json, const std::string& words) {
    EXPECT_TRUE(fails(Tokenizer::from_json(json, "t"), Code::unsupported, words));
  };
  refused(tokenizer("", R"(,"dropout":0.1)"), "dropout");
  refused(tokenizer("", R"(,"unk_token":"<unk>")"), "unk_token");
  refused(tokenizer("", R"(,"byte_fallback":true)"), "byte_fallback");
  refused(tokenizer("", "", "", R"({"type":"Metaspace"})"), "Metaspace");
  refused(
      tokenizer("", "", "", R"({"type":"Split","pattern":{"String":"a"},"behavior":"Contiguous"})"),
      "Contiguous");
  refused(tokenizer("", "", "", R"({"type":"Split","pattern":{"Regex":"("},"behavior":"Removed"})"),
          "ICU refuses");
  refused(tokenizer("", "", R"({"id":259,"content":"xx","lstrip":true})"), "lstrip");
  EXPECT_TRUE(fails(Tokenizer::from_json(tokenizer(R"("a z")"), "t"), Code::corrupt, "merge 0"));
  EXPECT_TRUE(fails(Tokenizer::from_json(tokenizer(R"("ab")"), "t"), Code::corrupt, "one space"));
}

TEST(Tokenizer, DecodesATokenToItsBytes) {
  const auto made = Tokenizer::from_json(tokenizer(""), "t");
  ASSERT_TRUE(is_ok(made));
  EXPECT_EQ(*made->decode(257), "abc");
  EXPECT_EQ(*made->decode(0xE4), "\xe4");
  EXPECT_TRUE(fails(made->decode(-1), Code::out_of_range, "found -1"));
  EXPECT_TRUE(fails(made->decode(259), Code::out_of_range, "expected 0..258"));
}

}  // namespace
}  // namespace engram
