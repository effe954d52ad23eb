// The command line `engram`: parses, runs one subcommand, reports its error.
#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "engram/status.hpp"

#include "cli/command.hpp"
#include "cli/ranks.hpp"

namespace engram::cli {

Error usage_error(std::string message) {
  return Error{Code::invalid_argument, 0, std::move(message)};
}

}  // namespace engram::cli

namespace {

constexpr int kExitFailure = 1;

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

int main(int argc, char** argv) {
  engram::cli::CommandLine line(
      "The Engram conditional memory of DeepSeek-V4.1: token ids to gated residual",
      ENGRAM_VERSION);
  const engram::cli::Command app = line.root();
  engram::cli::add_demo(app);
  engram::cli::add_inspect(app);
  engram::cli::add_hash(app);
  engram::cli::add_lookup(app);
  engram::cli::add_apply(app);
  engram::cli::add_load(app);
  engram::cli::add_profile(app);
  engram::cli::add_token_map(app);
  engram::cli::add_convert(app);
  engram::cli::add_shard(app);
  engram::cli::add_rotate(app);
  engram::cli::add_compare(app);
  engram::cli::add_check(app);
  engram::cli::add_verify(app);
  engram::cli::add_make_model(app);
  engram::cli::add_selftest(app);
  engram::cli::add_bench(app);
  if (const int mistake = line.parse(argc, argv); mistake != 0) return mistake;
  const int exit_status = line.chosen() ? run_command(line.chosen()) : 0;
  engram::cli::end_ranks(exit_status == 0);
  return exit_status;
}
