// Text files as documents of token ids.
#pragma once

#include <string>
#include <vector>

#include "engram/status.hpp"
#include "engram/types.hpp"

#include "cli/command.hpp"

namespace engram::cli {

struct CorpusInput {
  std::vector<std::string> paths;

  // --text-files FILES AND FOLDERS
  void add_options(const Command& command, bool required);
};

// Every file a document, folders with all that lies below; sorted, so that a corpus is the same
// wherever it lies. Empty files are left out. Shows a progress bar.
Result<std::vector<std::vector<TokenId>>> read_corpus(const CorpusInput& input,
                                                      const std::string& tokenizer_path);

}  // namespace engram::cli
