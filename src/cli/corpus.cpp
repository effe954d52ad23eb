// Text files as documents of token ids.
#include "cli/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engram/token_map.hpp"

#include "cli/terminal.hpp"
#include "cli/token_input.hpp"

namespace engram::cli {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code code;
    if (!fs::is_directory(path, code)) {
      files.push_back(path);
      continue;
    }
    for (fs::recursive_directory_iterator entry(path, code), end; !code && entry != end;
         entry.increment(code)) {
      if (entry->is_regular_file(code)) files.push_back(entry->path().string());
    }
    if (code) return Error{Code::io, code.value(), fmt::format("{}: {}", path, code.message())};
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

void CorpusInput::add_options(const Command& command, bool required) {
  command.add_option("--text-files", paths, "Files, and folders of files: each file a document")
      .required(required);
}

Result<std::vector<std::vector<TokenId>>> read_corpus(const CorpusInput& input,
                                                      const std::string& tokenizer_path) {
  const auto tokenizer = Tokenizer::from_file(tokenizer_path);
  if (!tokenizer) return tokenizer.error();
  const auto files = files_of(input.paths);
  if (!files) return files.error();
  const Progress progress = progress_bar("reading text", Counts::other);
  std::vector<std::vector<TokenId>> documents;
  for (std::size_t i = 0; i < files->size(); ++i) {
    const auto text = read_text_file((*files)[i]);
    if (!text) return text.error();
    auto tokens = tokenizer->encode(*text);
    if (!tokens) return std::move(tokens).error();
    if (!tokens->empty()) documents.push_back(*std::move(tokens));
    if (progress) progress(i + 1, files->size());
  }
  return documents;
}

}  // namespace engram::cli
