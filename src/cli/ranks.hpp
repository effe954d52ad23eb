// Processes of one mpirun that look up together: --tier sharded.
#pragma once

#include <string>

#include "engram/engine.hpp"
#include "engram/status.hpp"

#include "cli/command.hpp"

namespace engram::cli {

struct RankOptions {
  bool sharded = false;
  Partition by = Partition::strided;
  bool reduced = false;
  double timeout_seconds = 30;
};

// --partition, --exchange and --timeout; nothing in a build without MPI.
void add_rank_options(const Command& command, RankOptions& options);

// Starts MPI, once. Code::unsupported in a build without it.
Result<OpenStores> open_ranks(const RankOptions& options);

// This rank's own directory below `path`, as `engram shard` names it, or `path` itself.
std::string rank_directory(const std::string& path);

// Whether this process is the one that prints and writes: alone, or rank 0.
bool first_rank();

// Ends MPI where it was started. After a failure the other ranks are ended too, since they would
// wait for this one.
void end_ranks(bool success);

}  // namespace engram::cli
