// GPT-2's byte alphabet: the 256 code points that spell raw bytes in a byte-level vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace engram {

// Printable Latin-1 bytes spell themselves; the other 68 take U+0100, U+0101, ... in byte order.
// Reference: openai/gpt-2 src/encoder.py, bytes_to_unicode.
std::array<char32_t, 256> byte_alphabet();

// The bytes that a token spells, or nothing where any of its characters is outside the alphabet.
std::optional<std::string> bytes_from_alphabet(std::string_view token);

// The alphabet's UTF-8 spelling of one byte.
std::string alphabet_spelling(std::uint8_t byte);

}  // namespace engram
