// engram load and engram unload: tables in memory that all processes of a host share.
#include <memory>

#include "engram/row_store.hpp"

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

struct LoadOptions {
  std::string model;
  std::string name;
  CheckpointOptions checkpoint;
  StoreOptions store;
};

Status run_load(LoadOptions& options) {
  const auto checkpoint = Checkpoint::open(options.model, options.checkpoint);
  if (!checkpoint) return checkpoint.error();
  options.store.progress = progress_bar("loading");
  return load_shared(checkpoint->tables(), options.name, options.store);
}

}  // namespace

void add_load(const Command& app) {
  const auto options = std::make_shared<LoadOptions>();
  const Command load = app.add_subcommand("load", "Tables into memory that all processes share");
  load.add_option("MODEL", options->model, "Model directory").required();
  load.add_option("--shared", options->name, "Its name, for --tier shared:NAME").required();
  add_threads_option(load, options->store.threads, "Threads that load");
  add_checkpoint_options(load, options->checkpoint);
  load.runs([options] { return run_load(*options); });

  const Command unload = app.add_subcommand("unload", "Remove what engram load has loaded");
  unload.add_option("NAME", options->name, "The name it was given").required();
  unload.runs([options] { return unload_shared(options->name); });
}

}  // namespace engram::cli
