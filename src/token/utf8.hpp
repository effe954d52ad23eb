// UTF-8 to ICU strings and back.
#pragma once

#include <unicode/unistr.h>

#include <string>
#include <string_view>

namespace engram {

// Each ill-formed part becomes U+FFFD. Requires less than 2^31 bytes.
inline icu::UnicodeString unicode_from_utf8(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

inline std::string utf8_from_unicode(const icu::UnicodeString& text) {
  std::string utf8;
  text.toUTF8String(utf8);
  return utf8;
}

}  // namespace engram
