// The command line `engram`: parses, runs one subcommand, reports its error.
#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "engram/status.hpp"

#include "cli/command.hpp"

namespace engram::cli {

Error usage_error(std::string message) {
  return Error{Code::invalid_argument, 0, std::move(message)};
}

}  // namespace engram::cli

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int run_command(const engram::cli::Run& run) {
  engram::Status status;
  try {
    status = run();
  } catch (const std::bad_alloc&) {
    status = engram::Error{engram::Code::out_of_memory, 0, "out of memory"};
  }
  if (status) return 0;
  fmt::print(stderr, "engram: {}\n", status.error().message);
  return kExitFailure;
}

}  // namespace

// CLI11 throws only while options are declared wrongly, which any run shows.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  CLI::App app{"The Engram conditional memory of DeepSeek-V4.1: token ids to gated residual"};
  app.require_subcommand(1);
  app.set_version_flag("--version", ENGRAM_VERSION);
  engram::cli::Run run;
  engram::cli::add_demo(app, run);
  engram::cli::add_inspect(app, run);
  engram::cli::add_hash(app, run);
  engram::cli::add_lookup(app, run);
  engram::cli::add_apply(app, run);
  engram::cli::add_load(app, run);
  engram::cli::add_profile(app, run);
  engram::cli::add_token_map(app, run);
  engram::cli::add_convert(app, run);
  engram::cli::add_shard(app, run);
  engram::cli::add_rotate(app, run);
  engram::cli::add_compare(app, run);
  engram::cli::add_check(app, run);
  engram::cli::add_verify(app, run);
  engram::cli::add_make_model(app, run);
  engram::cli::add_selftest(app, run);
  engram::cli::add_bench(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return run_command(run);
}
