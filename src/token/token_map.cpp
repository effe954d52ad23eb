// The compressed token map: built from a tokenizer, adopted, saved, loaded, applied.
#include "engram/token_map.hpp"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "os/file.hpp"
#include "token/byte_alphabet.hpp"
#include "token/text_fold.hpp"
#include "token/tokenizer_json.hpp"

namespace engram {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD in UTF-8

// The text of a token decoded alone, or nothing where decoding is lossy or spells U+FFFD itself.
std::optional<std::string> decoded_text(std::string_view token, bool byte_level) {
  std::optional<std::string> bytes = byte_level ? bytes_from_alphabet(token) : std::nullopt;
  std::string text = bytes ? *std::move(bytes) : std::string(token);
  if (!simdjson::validate_utf8(text)) return std::nullopt;
  if (text.find(kReplacementCharacter) != std::string::npos) return std::nullopt;
  return text;
}

// What makes tokens equal: raw spelling where the text is not clean, else the fold, else (where
// the fold leaves nothing) the text. All three kinds share one dictionary.
Result<std::string> dictionary_key(std::string_view token, bool byte_level) {
  std::optional<std::string> text = decoded_text(token, byte_level);
  if (!text) return std::string(token);
  Result<std::string> folded = fold_text(*text);
  if (!folded || !folded->empty()) return folded;
  return *std::move(text);
}

}  // namespace

TokenMap::TokenMap(std::vector<CompressedId> ids, std::int64_t compressed_size, std::string sha256)
    : ids_(std::move(ids)), compressed_size_(compressed_size), sha256_(std::move(sha256)) {}

Result<TokenMap> TokenMap::from_tokenizer_json(std::string_view json, std::string_view where) {
  const auto file = read_tokenizer_json(json, where);
  if (!file) return file.error();
  std::vector<CompressedId> ids;
  ids.reserve(file->tokens.size());
  std::unordered_map<std::string, CompressedId> dictionary;
  dictionary.reserve(file->tokens.size());
  for (const std::string_view token : file->tokens) {
    auto key = dictionary_key(token, file->byte_level);
    if (!key) return with_context(std::move(key).error(), where);
    const auto next = static_cast<CompressedId>(dictionary.size());
    ids.push_back(dictionary.try_emplace(*std::move(key), next).first->second);
  }
  return from_ids(std::move(ids), where);
}

Result<TokenMap> TokenMap::from_tokenizer_file(const std::string& path) {
  const auto json = os::read_text_file(path, kTokenizerBytesMax);
  if (!json) return json.error();
  return from_tokenizer_json(*json, path);
}

Result<TokenMap> TokenMap::from_ids(std::vector<CompressedId> ids, std::string_view where) {
  if (ids.empty()) return make_error(Code::corrupt, "{}: token map is empty", where);
  CompressedId next = 0;  // the id that a string not seen before gets
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > next) {
      return make_error(Code::corrupt,
                        "{}: token map entry {}: expected 0..{} (first-appearance order), found {}",
                        where, i, next, ids[i]);
    }
    if (ids[i] == next) ++next;
  }
  auto digest = sha256_hex(std::as_bytes(std::span<const CompressedId>(ids)));
  if (!digest) return std::move(digest).error();
  return TokenMap(std::move(ids), next, *std::move(digest));
}

Result<TokenMap> TokenMap::load(const std::string& path) {
  auto ids = os::read_int32_file(path, kTokenizerBytesMax, "token map");
  if (!ids) return std::move(ids).error();
  return from_ids(*std::move(ids), path);
}

Status TokenMap::save(const std::string& path) const {
  auto file = os::WritableFile::create(path);
  if (!file) return std::move(file).error();
  ENGRAM_TRY(file->append(std::as_bytes(std::span(ids_))));
  return file->sync_and_close();
}

Status TokenMap::compress(std::span<const TokenId> tokens, std::span<const std::uint8_t> mask,
                          std::span<CompressedId> out) const {
  if (out.size() != tokens.size() || (!mask.empty() && mask.size() != tokens.size())) {
    return make_error(Code::invalid_argument,
                      "compress: {} tokens, {} mask values, room for {}: lengths must agree",
                      tokens.size(), mask.size(), out.size());
  }
  const auto is_dead = [&](std::size_t i) { return !mask.empty() && mask[i] == 0; };
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (is_dead(i)) continue;
    if (tokens[i] >= 0 && static_cast<std::size_t>(tokens[i]) < ids_.size()) continue;
    return make_error(Code::out_of_range, "token {} of {}: expected an id in 0..{}, found {}", i,
                      tokens.size(), ids_.size() - 1, tokens[i]);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    out[i] = is_dead(i) ? kDead : ids_[static_cast<std::size_t>(tokens[i])];
  }
  return {};
}

}  // namespace engram
