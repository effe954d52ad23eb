// GPT-2's byte alphabet: the 256 code points that spell raw bytes in a byte-level vocabulary.
#include "token/byte_alphabet.hpp"

#include <unicode/utf8.h>

namespace engram {
namespace {

constexpr int kNotInAlphabet = -1;
constexpr std::size_t kAlphabetEnd = 256 + 68;  // one past the last code point in use

std::array<std::int16_t, kAlphabetEnd> inverse_alphabet() {
  std::array<std::int16_t, kAlphabetEnd> inverse;
  inverse.fill(kNotInAlphabet);
  const auto alphabet = byte_alphabet();
  for (int byte = 0; byte < 256; ++byte) inverse[alphabet[byte]] = static_cast<std::int16_t>(byte);
  return inverse;
}

}  // namespace

std::array<char32_t, 256> byte_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    alphabet[byte] = printable ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}

std::optional<std::string> bytes_from_alphabet(std::string_view token) {
  static const auto inverse = inverse_alphabet();
  std::string bytes;
  bytes.reserve(token.size());
  const auto length = static_cast<std::int32_t>(token.size());
  for (std::int32_t position = 0; position < length;) {
    UChar32 character = 0;
    U8_NEXT(token.data(), position, length, character);
    if (character < 0 || static_cast<std::size_t>(character) >= kAlphabetEnd) return std::nullopt;
    if (inverse[character] == kNotInAlphabet) return std::nullopt;
    bytes.push_back(static_cast<char>(inverse[character]));
  }
  return bytes;
}

std::string alphabet_spelling(std::uint8_t byte) {
  static const auto alphabet = byte_alphabet();
  std::array<char, U8_MAX_LENGTH> utf8{};
  std::int32_t length = 0;
  U8_APPEND_UNSAFE(utf8.data(), length, static_cast<UChar32>(alphabet[byte]));
  return {utf8.data(), static_cast<std::size_t>(length)};
}

}  // namespace engram
