// engram shard and engram rotate: a model cut over ranks, or with a rotated residual stream.
#include <fmt/format.h>

#include <memory>

#include "engram/convert.hpp"

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/names.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

struct Options {
  std::string source;
  std::string destination;
  std::string rotation;
  CheckpointOptions checkpoint;
  ShardOptions shard;
};

Status run_shard(Options& options) {
  const auto source = Checkpoint::open(options.source, options.checkpoint);
  if (!source) return source.error();
  options.shard.progress = progress_bar("sharding");
  ENGRAM_TRY(shard(*source, options.destination, options.shard));
  fmt::print("{}\n", options.destination);
  return {};
}

Status run_rotate(Options& options) {
  const auto source = Checkpoint::open(options.source, options.checkpoint);
  if (!source) return source.error();
  ENGRAM_TRY(rotate(*source, options.destination, options.rotation, options.shard.threads,
                    progress_bar("rotating")));
  fmt::print("{}\n", options.destination);
  return {};
}

Command add_common(const Command& app, const char* name, const char* description,
                   Options& options) {
  const Command command = app.add_subcommand(name, description);
  command.add_option("SRC", options.source, "Model directory").required();
  command.add_option("DST", options.destination, "Directory to make; must not exist").required();
  add_threads_option(command, options.shard.threads);
  add_checkpoint_options(command, options.checkpoint);
  return command;
}

}  // namespace

void add_shard(const Command& app) {
  const auto options = std::make_shared<Options>();
  const Command command =
      add_common(app, "shard", "Tables cut over ranks, each a directory of its own", *options);
  command.add_option("--model-parallel", options->shard.world, "Ranks").required();
  command.add_choice(
      "--by", options->shard.by, kPartitions,
      "rows (blocks), heads (whole columns), strided (columns rank, rank + N, ...) or layer-order");
  command.add_flag("--tables-only", options->shard.tables_only, "Leave gate weights out");
  command.add_flag("--resume", options->shard.resume, "Go on with what an interrupted run left");
  command.runs([options] { return run_shard(*options); });
}

void add_rotate(const Command& app) {
  const auto options = std::make_shared<Options>();
  const Command command =
      add_common(app, "rotate", "Folds a rotation of the residual stream into wkv", *options);
  command
      .add_option("--rotation", options->rotation,
                  "safetensors with global_rotation [hidden, hidden]")
      .required();
  command.runs([options] { return run_rotate(*options); });
}

}  // namespace engram::cli
