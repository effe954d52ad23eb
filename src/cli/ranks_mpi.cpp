// Processes of one mpirun that look up together, in a build with MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "engram/mpi.hpp"

#include "cli/names.hpp"
#include "cli/ranks.hpp"

namespace engram::cli {
namespace {

bool started() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

int rank() {
  int value = 0;
  if (started()) MPI_Comm_rank(MPI_COMM_WORLD, &value);
  return value;
}

const std::map<std::string, bool> kExchanges = {{"packed", false}, {"reduced", true}};

}  // namespace

void add_rank_options(const Command& command, RankOptions& options) {
  command.add_choice("--partition", options.by, kPartitions,
                     "Tier sharded: who holds which rows: rows, heads, strided or layer-order");
  command.add_choice("--exchange", options.reduced, kExchanges,
                     "Tier sharded: packed (ids out, rows back) or reduced (all-reduce)");
  command
      .add_option("--timeout", options.timeout_seconds,
                  "Tier sharded: seconds to wait for another rank")
      .range(0.001, 1e6)
      .show_default();
}

Result<OpenStores> open_ranks(const RankOptions& options) {
  if (!started()) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  }
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(options.timeout_seconds * 1e3));
  return sharded_stores(
      MPI_COMM_WORLD,
      {options.by, options.reduced ? Exchange::reduced : Exchange::packed, timeout});
}

std::string rank_directory(const std::string& path) {
  std::string own = fmt::format("{}/rank-{:05}", path, rank());
  return std::filesystem::is_directory(own) ? own : path;
}

bool first_rank() { return rank() == 0; }

void end_ranks(bool success) {
  if (!started()) return;
  if (success) {
    MPI_Finalize();
  } else {
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

}  // namespace engram::cli
