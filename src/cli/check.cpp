// engram check: whether what is there is whole: structure, pages, rows, gate weights.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "engram/convert.hpp"
#include "engram/engine.hpp"

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

const std::map<std::string, CheckLevel> kLevels = {
    {"headers", CheckLevel::headers}, {"sample", CheckLevel::sample}, {"full", CheckLevel::full}};

struct Options {
  std::string path;
  CheckpointOptions checkpoint;
  CheckLevel level = CheckLevel::sample;
  int threads = 1;
};

// Gate weights are checked whole by loading them, and with them the token map.
Status check_gates(const Options& options, const Checkpoint& model) {
  if (options.level == CheckLevel::headers || model.gates().empty()) return {};
  if (model.tokenizer_path().empty() && model.token_map().empty()) return {};
  EngineOptions engine;
  engine.load = Load::gates;
  engine.checkpoint = options.checkpoint;
  engine.store.threads = options.threads;
  const auto opened = Engine::open(options.path, engine);
  if (!opened) return opened.error();
  fmt::print("gates    {} layers: no NaN; token map as expected\n", model.gates().size());
  return {};
}

Status run_check(const Options& options) {
  const auto model = Checkpoint::open(options.path, options.checkpoint);
  if (!model) return model.error();
  for (const std::string& name : model->missing()) fmt::print("missing  {}\n", name);
  const auto tables =
      check_tables(*model, options.level, options.threads, progress_bar("checking", Counts::other));
  if (!tables) return tables.error();
  for (std::size_t i = 0; i < tables->size(); ++i) {
    const TableCheck& check = (*tables)[i];
    const TableSource& source = model->tables()[i];
    fmt::print("table    layer {}: {}, {} of {} rows read{}\n", check.layer_id,
               row_format_name(source.layout.format), check.rows, source.held_count(),
               check.scale_min < 0
                   ? std::string()
                   : fmt::format(", scale bytes {}..{}", check.scale_min, check.scale_max));
  }
  return check_gates(options, *model);
}

}  // namespace

void add_check(const Command& app) {
  const auto options = std::make_shared<Options>();
  const Command command =
      app.add_subcommand("check", "Whether a model's tables and gates are whole");
  command.add_option("PATH", options->path, "Model directory or GGUF file").required();
  command.add_choice("--level", options->level, kLevels,
                     "headers; sample (some rows of every part); full (every row and page)");
  add_threads_option(command, options->threads);
  add_checkpoint_options(command, options->checkpoint);
  command.runs([options] { return run_check(*options); });
}

}  // namespace engram::cli
