// The fold, step by step, and the Unicode versions it knows.
#include "token/text_fold.hpp"

#include <gtest/gtest.h>

#include "tests/support/matchers.hpp"

namespace engram {
namespace {

std::string fold(std::string_view text) {
  const auto folded = fold_text(text);
  EXPECT_TRUE(test::is_ok(folded));
  return folded ? *folded : "error";
}

TEST(TextFold, DropsCaseAndMarksOfEveryKind) {
  EXPECT_EQ(fold("The"), "the");
  EXPECT_EQ(fold("\u00c1\u00e9"), "ae");
  EXPECT_EQ(fold("a\u0301"), "a");            // Mn
  EXPECT_EQ(fold("\u0915\u093e"), "\u0915");  // Mc
  EXPECT_EQ(fold("1\u20dd"), "1");            // Me
  EXPECT_EQ(fold("\u0e33"), "\u0e32");        // SARA AM: a mark and a vowel
  EXPECT_EQ(fold("\u0301"), "");
}

TEST(TextFold, DecomposesForCompatibility) {
  EXPECT_EQ(fold("\ufb01"), "fi");
  EXPECT_EQ(fold("\uff21"), "a");
  EXPECT_EQ(fold("\u2460"), "1");
  EXPECT_EQ(fold("\uac00"), "\u1100\u1161");  // Hangul into conjoining jamo
  EXPECT_EQ(fold("\uff5c"), "|");
}

TEST(TextFold, LowersWithoutFoldingCase) {
  EXPECT_EQ(fold("\u00df"), "\u00df");  // case folding would give ss
  EXPECT_EQ(fold("\u03a3\u03c2"), "\u03c3\u03c2");
  EXPECT_EQ(fold("\u0130"), "i");  // decomposed before it is lowered
}

TEST(TextFold, TreatsWhiteSpaceAsTheReferenceDoes) {
  EXPECT_EQ(fold(" "), " ");
  EXPECT_EQ(fold("  "), " ");
  EXPECT_EQ(fold("\n\r\t"), " ");
  EXPECT_EQ(fold("\u3000"), " ");
  EXPECT_EQ(fold("\u00a8"), " ");  // spacing accent: space and a mark
  EXPECT_EQ(fold(" a  b\n"), "a b");
  EXPECT_EQ(fold("\v"), "");  // not in [ \t\r\n], stripped
  EXPECT_EQ(fold("\u2028x\u0085"), "x");
  EXPECT_EQ(fold("\x1c"), "\x1c");   // Python would strip it; White_Space does not have it
  EXPECT_EQ(fold("a\ue000"), "a ");  // a real U+E000 becomes a space after the strip
}

TEST(TextFold, KnowsUnicodeUpToTwelvePointOneButLowersWithTheCurrentOne) {
  EXPECT_EQ(fold("\U00010781"), "\U00010781");  // 14.0: NFKD of today is U+02D0
  EXPECT_EQ(fold("a\u1ac1"), "a\u1ac1");        // 14.0: a mark of today
  EXPECT_EQ(fold("\u32ff"), "\u4ee4\u548c");    // 12.1: SQUARE ERA NAME REIWA
  EXPECT_EQ(fold("\ua7c0"), "\ua7c1");          // 14.0: case pair
  EXPECT_EQ(fold("\U00010d50"), "\U00010d70");  // 16.0: case pair
}

TEST(TextFold, StripsTheMarksOfUnicodeNine) {
  EXPECT_EQ(fold("a\u08e2b"), "a\u08e2b");          // Cf
  EXPECT_EQ(fold("a\u08d4b"), "ab");                // 9.0: a mark
  EXPECT_EQ(fold("a\u0afab"), "a\u0afab");          // 10.0: a mark that the library does not know
  EXPECT_EQ(fold("a\u1cf2b"), "ab");                // a mark until 12.0
  EXPECT_EQ(fold("a\U000111c9b"), "a\U000111c9b");  // a mark since 11.0
}

}  // namespace
}  // namespace engram
