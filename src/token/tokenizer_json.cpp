// Reads what this library needs from a Hugging Face tokenizer.json: ids, added tokens, decoder.
#include "token/tokenizer_json.hpp"

#include <optional>

#include "base/error.hpp"

namespace engram {
namespace {

// No tokenizer in use has more ids; it bounds the table that a hostile id could make us allocate.
constexpr std::int64_t kIdLimit = std::int64_t{1} << 24;

Result<TokenId> checked_id(JsonElement value, std::string_view token) {
  const Result<std::int64_t> id = json_int(value, token);
  if (!id) return id.error();
  if (*id < 0 || *id >= kIdLimit) {
    return make_error(Code::corrupt, "token '{}': id {} is outside 0..{}", token, *id,
                      kIdLimit - 1);
  }
  return static_cast<TokenId>(*id);
}

Status add_token(TokenizerJson& file, std::string_view token, TokenId id) {
  if (const auto [known, fresh] = file.ids.try_emplace(token, id); !fresh && known->second != id) {
    return make_error(Code::corrupt, "token '{}' has two ids, {} and {}", token, known->second, id);
  }
  if (file.tokens.size() <= static_cast<std::size_t>(id)) file.tokens.resize(id + 1);
  std::string_view& place = file.tokens[id];
  if (place.data() != nullptr && place != token) {
    return make_error(Code::corrupt, "id {} has two tokens, '{}' and '{}'", id, place, token);
  }
  place = token;
  return {};
}

Status read_vocabulary(TokenizerJson& file) {
  const auto model = json_require(file.document.root(), "model");
  if (!model) return model.error();
  const auto entries = json_require_object(*model, "vocab");
  if (!entries) return entries.error();
  file.ids.reserve(entries->size());
  for (const auto entry : *entries) {
    const auto id = checked_id(entry.value, entry.key);
    if (!id) return id.error();
    if (file.ids.contains(entry.key)) {
      return make_error(Code::corrupt, "token '{}' appears twice in the vocabulary", entry.key);
    }
    ENGRAM_TRY(add_token(file, entry.key, *id));
  }
  return {};
}

Result<AddedToken> read_added_token(JsonElement item) {
  const auto content = json_require_string(item, "content");
  if (!content) return content.error();
  const auto id_field = json_require(item, "id");
  if (!id_field) return id_field.error();
  const auto id = checked_id(*id_field, *content);
  if (!id) return id.error();
  AddedToken token{*id, *content, false, true};
  const auto normalized = json_flag(item, "normalized", false);
  if (!normalized) return normalized.error();
  token.normalized = *normalized;
  for (const std::string_view name : {"single_word", "lstrip", "rstrip"}) {
    const auto flag = json_flag(item, name, false);
    if (!flag) return flag.error();
    if (*flag) token.plain = false;
  }
  return token;
}

Status read_added_tokens(TokenizerJson& file) {
  const auto field = json_find(file.document.root(), "added_tokens");
  if (!field) return {};
  const auto items = json_array(*field, "added_tokens");
  if (!items) return items.error();
  for (const JsonElement item : *items) {
    const auto token = read_added_token(item);
    if (!token) return token.error();
    ENGRAM_TRY(add_token(file, token->content, token->id));
    file.added.push_back(*token);
  }
  return {};
}

// Decoders that turn one token alone into the same text: ByteLevel, none, and Fuse (which only
// joins several tokens). Others would need their own rules; guessing one makes a wrong map.
Status read_decoder(JsonElement decoder, TokenizerJson& file) {
  const auto type = json_require_string(decoder, "type");
  if (!type) return type.error();
  if (*type == "Fuse") return {};
  if (*type == "ByteLevel") {
    file.byte_level = true;
    return {};
  }
  if (*type != "Sequence") {
    return make_error(Code::unsupported,
                      "decoder '{}': expected ByteLevel or none; the compressed map of other "
                      "decoders is not defined here",
                      *type);
  }
  const auto list = json_require_array(decoder, "decoders");
  if (!list) return list.error();
  for (const JsonElement part : *list) ENGRAM_TRY(read_decoder(part, file));
  return {};
}

Status read_all(TokenizerJson& file) {
  ENGRAM_TRY(read_vocabulary(file));
  ENGRAM_TRY(read_added_tokens(file));
  for (std::size_t id = 0; id < file.tokens.size(); ++id) {
    if (file.tokens[id].data() != nullptr) continue;
    return make_error(Code::corrupt, "id {} of {} has no token; the map needs every id", id,
                      file.tokens.size());
  }
  if (file.tokens.empty()) return make_error(Code::corrupt, "the vocabulary is empty");
  const auto decoder = json_find(file.document.root(), "decoder");
  return decoder ? read_decoder(*decoder, file) : Status();
}

}  // namespace

Result<TokenizerJson> read_tokenizer_json(std::string_view json, std::string_view where) {
  auto document = JsonDocument::parse(json, where);
  if (!document) return std::move(document).error();
  TokenizerJson file{std::move(*document), {}, {}, {}, false};
  if (Status status = read_all(file); !status) {
    return with_context(std::move(status).error(), where);
  }
  return file;
}

}  // namespace engram
