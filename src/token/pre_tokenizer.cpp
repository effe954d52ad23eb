// Cuts text into the pieces that BPE merges inside of, as the tokenizer file's own rules say.
#include "token/pre_tokenizer.hpp"

#include "base/error.hpp"
#include "token/utf8.hpp"

namespace engram {
namespace {

// Reference: openai/gpt-2 src/encoder.py, the pattern ByteLevel applies when use_regex is set.
constexpr char16_t kByteLevelPattern[] =
    uR"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

Result<PreTokenizer> PreTokenizer::make(JsonElement config) {
  PreTokenizer result;
  ENGRAM_TRY(result.add_steps(config));
  return result;
}

Status PreTokenizer::add_steps(JsonElement config) {
  const auto type = json_require_string(config, "type");
  if (!type) return type.error();
  if (*type == "Split") return add_split(config);
  if (*type == "ByteLevel") return add_byte_level(config);
  if (*type == "Digits") {
    const auto individual = json_flag(config, "individual_digits", false);
    if (!individual) return individual.error();
    return add_pattern(*individual ? u"\\p{N}" : u"\\p{N}+", true, false);
  }
  if (*type != "Sequence") {
    return make_error(Code::unsupported,
                      "pre_tokenizer '{}': expected Sequence, Split, Digits or ByteLevel", *type);
  }
  const auto list = json_require_array(config, "pretokenizers");
  if (!list) return list.error();
  for (const JsonElement part : *list) ENGRAM_TRY(add_steps(part));
  return {};
}

Status PreTokenizer::add_split(JsonElement config) {
  const auto behavior = json_require_string(config, "behavior");
  if (!behavior) return behavior.error();
  if (*behavior != "Isolated" && *behavior != "Removed") {
    return make_error(Code::unsupported, "Split behavior '{}': expected Isolated or Removed",
                      *behavior);
  }
  const auto invert = json_flag(config, "invert", false);
  if (!invert) return invert.error();
  const auto pattern = json_require(config, "pattern");
  if (!pattern) return pattern.error();
  if (const auto regex = json_find(*pattern, "Regex")) {
    const auto text = json_string(*regex, "pattern.Regex");
    if (!text) return text.error();
    return add_pattern(unicode_from_utf8(*text), *behavior == "Isolated", *invert);
  }
  const auto text = json_require_string(*pattern, "String");
  if (!text) return text.error();
  // \Q...\E quotes; a literal \E inside would end the quote early.
  if (text->find("\\E") != std::string_view::npos) {
    return make_error(Code::unsupported, "Split pattern contains \\E");
  }
  return add_pattern(u"\\Q" + unicode_from_utf8(*text) + u"\\E", *behavior == "Isolated", *invert);
}

Status PreTokenizer::add_byte_level(JsonElement config) {
  const auto prefix = json_flag(config, "add_prefix_space", true);
  if (!prefix) return prefix.error();
  if (*prefix && !steps_.empty()) {
    return make_error(Code::unsupported, "ByteLevel add_prefix_space after another pre-tokenizer");
  }
  add_prefix_space_ = *prefix;
  const auto use_regex = json_flag(config, "use_regex", true);
  if (!use_regex) return use_regex.error();
  return *use_regex ? add_pattern(kByteLevelPattern, true, false) : Status();
}

Status PreTokenizer::add_pattern(const icu::UnicodeString& pattern, bool keep_matches,
                                 bool invert) {
  UErrorCode code = U_ZERO_ERROR;
  std::unique_ptr<icu::RegexPattern> compiled(icu::RegexPattern::compile(pattern, 0, code));
  if (U_FAILURE(code)) {
    return make_error(Code::unsupported, "pattern '{}': ICU refuses it: {}",
                      utf8_from_unicode(pattern), u_errorName(code));
  }
  steps_.push_back(Step{std::move(compiled), keep_matches, invert});
  return {};
}

Result<std::vector<icu::UnicodeString>> PreTokenizer::split(const icu::UnicodeString& text) const {
  std::vector<icu::UnicodeString> pieces;
  if (!text.isEmpty()) pieces.push_back(text.tempSubString());
  for (const Step& step : steps_) {
    std::vector<icu::UnicodeString> next;
    UErrorCode code = U_ZERO_ERROR;
    const std::unique_ptr<icu::RegexMatcher> matcher(step.pattern->matcher(code));
    for (const icu::UnicodeString& piece : pieces) {
      if (U_FAILURE(code)) break;
      // Each piece is matched as if it were the whole text: look-around sees nothing outside it.
      matcher->reset(piece);
      int32_t done = 0;
      const auto add = [&](int32_t begin, int32_t end, bool is_match) {
        if (begin < end && (step.keep_matches || is_match == step.invert)) {
          next.push_back(piece.tempSubStringBetween(begin, end));
        }
      };
      while (matcher->find(code) && U_SUCCESS(code)) {
        const int32_t begin = matcher->start(code);
        const int32_t end = matcher->end(code);
        add(done, begin, false);
        add(begin, end, true);
        done = end;
      }
      add(done, piece.length(), false);
    }
    if (U_FAILURE(code)) {
      return make_error(Code::unsupported, "pre-tokenizer pattern failed on this text: {}",
                        u_errorName(code));
    }
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace engram
