// The token inputs that subcommands share: --ids, --text, --ids-file, --mask, --chunk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engram/engine.hpp"
#include "engram/status.hpp"

#include "cli/command.hpp"

namespace engram::cli {

struct TokenInput {
  std::string ids;
  std::string text;
  std::string ids_file;
  std::string mask;
  std::size_t chunk = 0;  // 0: all at once

  // `required`: one of the three inputs must be given.
  void add_options(const Command& command, bool required);
};

struct Tokens {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> mask;  // empty: all text
};

// `tokenizer_path` is read for --text only.
Result<Tokens> read_tokens(const TokenInput& input, const std::string& tokenizer_path);

// Whole numbers separated by commas, white space or brackets. `what` names the list in messages.
Result<std::vector<std::int64_t>> parse_numbers(const std::string& text, const std::string& what);
Result<std::string> read_text_file(const std::string& path);
Result<std::vector<TokenId>> read_ids_file(const std::string& path);

// Tokens taken at a time by commands whose memory grows with them, where --chunk does not say.
inline constexpr std::size_t kTokensAtOnce = 2048;

// Advances a fresh session chunk by chunk (0: all at once); `visit(first)` sees each chunk as
// current, `first` being the index of its first token. Shows a progress bar.
Status for_each_chunk(Session& session, const Tokens& tokens, std::size_t chunk,
                      const std::function<Status(std::size_t first)>& visit);

}  // namespace engram::cli
