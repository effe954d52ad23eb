// The options with which subcommands open a model.
#pragma once

#include <string>
#include <string_view>
#include <thread>

#include "engram/engine.hpp"

#include "cli/command.hpp"
#include "cli/ranks.hpp"

namespace engram::cli {

// The format of tables where several fit and nothing declares one.
void add_codec_option(const Command& command, const std::string& flag, CheckpointOptions& options);

// --allow-spare-rows, --codec.
void add_checkpoint_options(const Command& command, CheckpointOptions& options);

// As many as the machine has processors.
int default_threads();
// --threads, which is default_threads() where it is not given.
void add_threads_option(const Command& command, int& threads, const std::string& description = {});

struct ModelOptions {
  std::string model;
  std::string resident;     // as given: LAYER:ORDER,ORDER;...
  std::string hot;          // a file of n-grams for the cache
  double wait_seconds = 0;  // tier shared
  EngineOptions engine;
  RankOptions ranks;

  // MODEL, --tokenizer, --token-map-sha256, and the checkpoint options.
  void add_options(const Command& command);
  // --tier, --nan, --threads.
  void add_tier_options(const Command& command);
};

// Opens with a progress bar; says on stderr what tier automatic has chosen.
Result<Engine> open_engine(const ModelOptions& options, Load load);

// A thread that fills the cache from --hot while the command goes on, and ends with it; none
// without
// --hot. The engine must outlive it.
Result<std::jthread> warm_behind(const ModelOptions& options, const Engine& engine);

// The tokenizer that --text goes through: the one given, or the model's own.
std::string tokenizer_path(const ModelOptions& options, const Engine& engine);

}  // namespace engram::cli
