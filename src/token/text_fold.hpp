// The fold that makes tokens equal: NFKD without marks, lower case, white space collapsed.
#pragma once

#include <string>
#include <string_view>

#include "engram/status.hpp"

namespace engram {

// NFKC; NFD; StripAccents; Lowercase; [ \t\r\n]+ -> " "; ^ $ -> U+E000; Strip; U+E000 -> " ".
// Reference: the normalizer that inference/engram.py builds from Hugging Face tokenizers.
//
// The first four steps are one fold per code point, f(c) = lower(NFKD(c) without marks): NFKC then
// NFD is NFKD, and once marks are gone nothing composes. The tables are those of the training-side
// library: decompositions of Unicode 12.1, marks of Unicode 9.0, the current lower case. A code
// point that a table is too old to know passes it unchanged.
// Requires well-formed UTF-8. The result may be empty.
Result<std::string> fold_text(std::string_view text);

}  // namespace engram
