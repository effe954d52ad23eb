// What every subcommand of `engram` looks like to main.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "engram/status.hpp"

namespace engram::cli {

// Set by the subcommand that was chosen; main runs it and prints its error.
using Run = std::function<Status()>;

void add_inspect(CLI::App& app, Run& run);
void add_hash(CLI::App& app, Run& run);
void add_lookup(CLI::App& app, Run& run);
void add_apply(CLI::App& app, Run& run);
void add_token_map(CLI::App& app, Run& run);
void add_make_model(CLI::App& app, Run& run);
void add_demo(CLI::App& app, Run& run);
void add_selftest(CLI::App& app, Run& run);
void add_convert(CLI::App& app, Run& run);
void add_shard(CLI::App& app, Run& run);
void add_rotate(CLI::App& app, Run& run);
void add_compare(CLI::App& app, Run& run);
void add_check(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_profile(CLI::App& app, Run& run);
void add_load(CLI::App& app, Run& run);    // and unload
void add_verify(CLI::App& app, Run& run);  // and manifest

// An Error of invalid_argument with a formatted sentence, for mistakes only the command line sees.
Error usage_error(std::string message);

}  // namespace engram::cli
