// Reads what this library needs from a Hugging Face tokenizer.json: ids, added tokens, decoder.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engram/types.hpp"

#include "base/json.hpp"

namespace engram {

// tokenizer.json files are a few MiB; this bounds what a wrong path can make us read.
inline constexpr std::uint64_t kTokenizerBytesMax = std::uint64_t{256} << 20;

struct AddedToken {
  TokenId id = 0;
  std::string_view content;
  bool normalized = false;  // matched after the normalizer instead of before it
  bool plain = true;        // none of single_word, lstrip, rstrip is set
};

// Strings are views into `document`.
struct TokenizerJson {
  JsonDocument document;
  std::vector<std::string_view> tokens;  // [length]: the raw spelling of every id
  std::unordered_map<std::string_view, TokenId> ids;
  std::vector<AddedToken> added;
  bool byte_level = false;  // ByteLevel decoder; otherwise a token's text is its spelling
};

// Code::corrupt where ids have holes or doubles, Code::unsupported for other decoders.
Result<TokenizerJson> read_tokenizer_json(std::string_view json, std::string_view where);

}  // namespace engram
