// engram profile: the n-grams that a corpus asks for most.
#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/corpus.hpp"
#include "cli/engine_options.hpp"

namespace engram::cli {
namespace {

struct ProfileOptions {
  ModelOptions model;
  CorpusInput corpus;
  std::string output;
  std::size_t count = 1'000'000;
};

Status run_profile(const ProfileOptions& options) {
  const auto engine = open_engine(options.model, Load::addresses);
  if (!engine) return engine.error();
  const auto documents = read_corpus(options.corpus, tokenizer_path(options.model, *engine));
  if (!documents) return documents.error();
  Profile profile(*engine);
  for (const auto& document : *documents) ENGRAM_TRY(profile.add(document));
  const auto hottest = profile.hottest(options.count);
  if (!hottest) return hottest.error();
  ENGRAM_TRY(write_hot_set(options.output, *engine, *hottest));
  fmt::print("{} documents, {} tokens: {} n-grams\n", documents->size(), profile.token_count(),
             hottest->size());
  return {};
}

}  // namespace

void add_profile(const Command& app) {
  const auto options = std::make_shared<ProfileOptions>();
  const Command command =
      app.add_subcommand("profile", "The n-grams that texts ask for most, for --hot");
  options->model.add_options(command);
  options->corpus.add_options(command, true);
  command.add_option("--output", options->output, "File to write").required();
  command.add_option("--count", options->count, "N-grams at most").show_default();
  command.runs([options] { return run_profile(*options); });
}

}  // namespace engram::cli
