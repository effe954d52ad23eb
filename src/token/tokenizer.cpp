// Text to token ids: added tokens first, then pre-tokenizer pieces, then BPE.
#include <unicode/normalizer2.h>

#include <map>
#include <optional>

#include "engram/token_map.hpp"

#include "base/error.hpp"
#include "os/file.hpp"
#include "token/bpe.hpp"
#include "token/byte_alphabet.hpp"
#include "token/pre_tokenizer.hpp"
#include "token/tokenizer_json.hpp"
#include "token/utf8.hpp"

namespace engram {
namespace {

// ICU counts UTF-16 units in 32 bits; a replaced byte becomes three bytes of UTF-8.
constexpr std::size_t kTextBytesMax = std::size_t{512} << 20;

// Longest match at each place, as Aho-Corasick with LeftmostLongest gives.
class AddedTokenMatcher {
 public:
  void add(std::string_view content, TokenId id) {
    if (content.empty()) return;
    lengths_[content.front()][content.size()].emplace(content, id);
  }

  struct Match {
    std::size_t begin;
    std::size_t end;
    TokenId id;
  };
  std::optional<Match> find(std::string_view text, std::size_t from) const {
    for (std::size_t begin = from; begin < text.size(); ++begin) {
      const auto first = lengths_.find(text[begin]);
      if (first == lengths_.end()) continue;
      for (const auto& [length, tokens] : first->second) {
        const auto token = tokens.find(text.substr(begin, length));
        if (token != tokens.end()) return Match{begin, begin + length, token->second};
      }
    }
    return std::nullopt;
  }

 private:
  using ByLength =
      std::map<std::size_t, std::unordered_map<std::string_view, TokenId>, std::greater<>>;
  std::unordered_map<char, ByLength> lengths_;
};

// Unicode normal forms are reproduced; anything else that changes text is refused.
Result<std::optional<std::string_view>> normal_form(const JsonElement& root) {
  auto config = json_find(root, "normalizer");
  std::optional<std::string_view> form;
  if (!config) return form;
  if (const auto parts = json_find(*config, "normalizers")) {
    const auto list = json_array(*parts, "normalizers");
    if (!list) return list.error();
    if (list->size() == 0) return form;
    if (list->size() > 1) {
      return make_error(Code::unsupported, "normalizer: a sequence of {}", list->size());
    }
    config = list->at(0).value_unsafe();
  }
  const auto type = json_require_string(*config, "type");
  if (!type) return type.error();
  if (*type != "NFC" && *type != "NFD" && *type != "NFKC" && *type != "NFKD") {
    return make_error(Code::unsupported, "normalizer '{}': expected none, NFC, NFD, NFKC or NFKD",
                      *type);
  }
  form = *type;
  return form;
}

const icu::Normalizer2* normalizer_for(std::string_view form, UErrorCode& code) {
  if (form == "NFC") return icu::Normalizer2::getNFCInstance(code);
  if (form == "NFD") return icu::Normalizer2::getNFDInstance(code);
  if (form == "NFKC") return icu::Normalizer2::getNFKCInstance(code);
  return icu::Normalizer2::getNFKDInstance(code);
}

}  // namespace

struct Tokenizer::Impl {
  TokenizerJson file;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  AddedTokenMatcher before_normalizer;
  AddedTokenMatcher after_normalizer;
  const icu::Normalizer2* normalizer = nullptr;  // ICU's own; null for none

  Status encode_between(std::string_view text, const AddedTokenMatcher& matcher, bool normalized,
                        std::vector<TokenId>& out) const;
  Status encode_plain(std::string_view text, std::vector<TokenId>& out) const;
  Result<std::string> normalize(std::string_view text) const;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_file(const std::string& path) {
  const auto json = os::read_text_file(path, kTokenizerBytesMax);
  if (!json) return json.error();
  return from_json(*json, path);
}

Result<Tokenizer> Tokenizer::from_json(std::string_view json, std::string_view where) {
  auto file = read_tokenizer_json(json, where);
  if (!file) return std::move(file).error();
  auto impl = std::make_unique<Impl>();
  impl->file = *std::move(file);
  const JsonElement root = impl->file.document.root();
  auto bpe = Bpe::make(impl->file);
  if (!bpe) return with_context(std::move(bpe).error(), where);
  impl->bpe = *std::move(bpe);
  if (const auto config = json_find(root, "pre_tokenizer")) {
    auto pre_tokenizer = PreTokenizer::make(*config);
    if (!pre_tokenizer) return with_context(std::move(pre_tokenizer).error(), where);
    impl->pre_tokenizer = *std::move(pre_tokenizer);
  }
  const auto form = normal_form(root);
  if (!form) return with_context(form.error(), where);
  if (*form) {
    UErrorCode code = U_ZERO_ERROR;
    impl->normalizer = normalizer_for(**form, code);
    if (U_FAILURE(code)) {
      return make_error(Code::internal, "ICU has no {} data: {}", **form, u_errorName(code));
    }
  }
  for (const AddedToken& token : impl->file.added) {
    if (!token.plain) {
      return make_error(Code::unsupported,
                        "{}: added token '{}' sets single_word, lstrip or rstrip", where,
                        token.content);
    }
    (token.normalized ? impl->after_normalizer : impl->before_normalizer)
        .add(token.content, token.id);
  }
  return Tokenizer(std::move(impl));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text) const {
  if (text.size() > kTextBytesMax) {
    return make_error(Code::unsupported, "text of {} bytes: at most {} are encoded in one call",
                      text.size(), kTextBytesMax);
  }
  // Through UTF-16 and back, which replaces every ill-formed part by U+FFFD.
  const std::string clean = utf8_from_unicode(unicode_from_utf8(text));
  std::vector<TokenId> ids;
  ENGRAM_TRY(impl_->encode_between(clean, impl_->before_normalizer, false, ids));
  return ids;
}

// Added tokens are cut out first; what lies between goes on: through the normalizer and the second
// set of added tokens, then to BPE.
Status Tokenizer::Impl::encode_between(std::string_view text, const AddedTokenMatcher& matcher,
                                       bool normalized, std::vector<TokenId>& out) const {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto match = matcher.find(text, done);
    const std::string_view between = text.substr(done, match ? match->begin - done : text.npos);
    if (!between.empty() && normalized) ENGRAM_TRY(encode_plain(between, out));
    if (!between.empty() && !normalized) {
      const auto changed = normalize(between);
      if (!changed) return changed.error();
      ENGRAM_TRY(encode_between(*changed, after_normalizer, true, out));
    }
    if (!match) break;
    out.push_back(match->id);
    done = match->end;
  }
  return {};
}

Result<std::string> Tokenizer::Impl::normalize(std::string_view text) const {
  if (normalizer == nullptr) return std::string(text);
  UErrorCode code = U_ZERO_ERROR;
  const icu::UnicodeString source = unicode_from_utf8(text);
  const icu::UnicodeString normal = normalizer->normalize(source, code);
  if (U_FAILURE(code)) {
    return make_error(Code::internal, "ICU cannot normalise: {}", u_errorName(code));
  }
  return utf8_from_unicode(normal);
}

Status Tokenizer::Impl::encode_plain(std::string_view text, std::vector<TokenId>& out) const {
  icu::UnicodeString source = unicode_from_utf8(text);
  if (pre_tokenizer.add_prefix_space() && source.char32At(0) != ' ') source.insert(0, u' ');
  const auto pieces = pre_tokenizer.split(source);
  if (!pieces) return pieces.error();
  for (const icu::UnicodeString& piece : *pieces) {
    ENGRAM_TRY(bpe.encode(utf8_from_unicode(piece), out));
  }
  return {};
}

Result<std::string> Tokenizer::decode(TokenId id) const {
  const auto& tokens = impl_->file.tokens;
  if (id < 0 || static_cast<std::size_t>(id) >= tokens.size()) {
    return make_error(Code::out_of_range, "token id: expected 0..{}, found {}", tokens.size() - 1,
                      id);
  }
  return bytes_from_alphabet(tokens[id]).value_or(std::string(tokens[id]));
}

}  // namespace engram
