// The fold that makes tokens equal: NFKD without marks, lower case, white space collapsed.
#include "token/text_fold.hpp"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <array>
#include <cstdint>
#include <tuple>

#include "base/error.hpp"
#include "token/utf8.hpp"

namespace engram {
namespace {

constexpr UChar32 kSentinel = 0xE000;  // keeps a lone space through Strip

bool known_to_unicode(UChar32 c, std::uint8_t major, std::uint8_t minor) {
  UVersionInfo age;
  u_charAge(c, age);
  return std::tie(age[0], age[1]) <= std::tie(major, minor);
}

// Decompositions are those of Unicode 12.1. They never change once assigned (Unicode stability
// policy), so the age of a code point is all that separates a 12.1 table from a newer one.
bool decomposes(UChar32 c) { return known_to_unicode(c, 12, 1); }

// Marks are those of Unicode 9.0: the library's table of marks is older than its decompositions.
// Three code points have changed category since. Found by comparing all of Unicode with
// tokenizers 0.23.3 (tests/python/compare.py).
bool is_mark(UChar32 c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // Mc until Unicode 12.0
  if (c == 0x111C9) return false;               // Mn since Unicode 11.0
  return (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0 && known_to_unicode(c, 9, 0);
}

// Case pairs of Unicode 16 and 17, for an ICU that does not know them yet.
struct LowerRange {
  UChar32 first;
  UChar32 last;
  UChar32 lower_of_first;
};
constexpr std::array kYoungCasePairs = {
    LowerRange{0x1C89, 0x1C89, 0x1C8A},    LowerRange{0xA7CB, 0xA7CB, 0x0264},
    LowerRange{0xA7CC, 0xA7CC, 0xA7CD},    LowerRange{0xA7CE, 0xA7CE, 0xA7CF},
    LowerRange{0xA7D2, 0xA7D2, 0xA7D3},    LowerRange{0xA7D4, 0xA7D4, 0xA7D5},
    LowerRange{0xA7DA, 0xA7DA, 0xA7DB},    LowerRange{0xA7DC, 0xA7DC, 0x019B},
    LowerRange{0x10D50, 0x10D65, 0x10D70}, LowerRange{0x16EA0, 0x16EB8, 0x16EBB},
};

// Simple lower-casing is the full one here: only U+0130 expands, and NFKD has taken it apart.
UChar32 to_lower(UChar32 c) {
  const UChar32 lower = u_tolower(c);
  if (lower != c) return lower;
  for (const LowerRange& range : kYoungCasePairs) {
    if (c >= range.first && c <= range.last) return range.lower_of_first + (c - range.first);
  }
  return c;
}

void fold_code_point(const icu::Normalizer2& nfkd, UChar32 c, icu::UnicodeString& out) {
  if (c < 0x80) {
    out.append(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    return;
  }
  icu::UnicodeString parts;
  if (!decomposes(c) || !nfkd.getDecomposition(c, parts)) parts.setTo(c);
  for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
    const UChar32 part = parts.char32At(i);
    if (!is_mark(part)) out.append(to_lower(part));
  }
}

// [ \t\r\n]+ -> one space. Other white space stays as it is.
icu::UnicodeString collapse_spaces(const icu::UnicodeString& text) {
  icu::UnicodeString out;
  bool in_run = false;
  for (int32_t i = 0; i < text.length(); ++i) {
    const char16_t unit = text.charAt(i);
    const bool space = unit == ' ' || unit == '\t' || unit == '\r' || unit == '\n';
    if (!space) out.append(unit);
    if (space && !in_run) out.append(u' ');
    in_run = space;
  }
  return out;
}

// Unicode White_Space at both ends; all of it is in the basic plane.
icu::UnicodeString strip(const icu::UnicodeString& text) {
  int32_t begin = 0;
  int32_t end = text.length();
  while (begin < end && u_isUWhiteSpace(text.charAt(begin))) ++begin;
  while (end > begin && u_isUWhiteSpace(text.charAt(end - 1))) --end;
  return icu::UnicodeString(text, begin, end - begin);
}

}  // namespace

Result<std::string> fold_text(std::string_view text) {
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* nfkd = icu::Normalizer2::getNFKDInstance(code);
  if (U_FAILURE(code)) {
    return make_error(Code::internal, "ICU has no NFKD data: {}", u_errorName(code));
  }
  const icu::UnicodeString source = unicode_from_utf8(text);
  icu::UnicodeString folded;
  for (int32_t i = 0; i < source.length(); i = source.moveIndex32(i, 1)) {
    fold_code_point(*nfkd, source.char32At(i), folded);
  }
  folded = collapse_spaces(folded);
  if (folded != icu::UnicodeString(u' ')) folded = strip(folded);
  folded.findAndReplace(icu::UnicodeString(kSentinel), icu::UnicodeString(u' '));
  return utf8_from_unicode(folded);
}

}  // namespace engram
