// Cuts text into the pieces that BPE merges inside of, as the tokenizer file's own rules say.
#pragma once

#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <memory>
#include <vector>

#include "engram/status.hpp"

#include "base/json.hpp"

namespace engram {

// Reproduces the pre-tokenizers of Hugging Face tokenizers: Sequence, Split (Isolated or Removed),
// Digits, ByteLevel. Immutable after make; safe to share between threads.
class PreTokenizer {
 public:
  // `config` is the file's "pre_tokenizer" member. Code::unsupported names what is not known.
  static Result<PreTokenizer> make(JsonElement config);

  // Pieces in text order; read-only aliases into `text`, valid as long as it is.
  Result<std::vector<icu::UnicodeString>> split(const icu::UnicodeString& text) const;

  // ByteLevel's add_prefix_space: the caller puts a space before text that has none.
  bool add_prefix_space() const { return add_prefix_space_; }

 private:
  struct Step {
    std::unique_ptr<icu::RegexPattern> pattern;
    bool keep_matches = true;  // Isolated keeps the match as a piece, Removed drops it
    bool invert = false;       // the pattern describes what lies between matches
  };
  Status add_steps(JsonElement config);
  Status add_split(JsonElement config);
  Status add_byte_level(JsonElement config);
  Status add_pattern(const icu::UnicodeString& pattern, bool keep_matches, bool invert);

  std::vector<Step> steps_;
  bool add_prefix_space_ = false;
};

}  // namespace engram
