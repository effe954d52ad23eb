// A build without MPI: one process.
#include "cli/ranks.hpp"

namespace engram::cli {

void add_rank_options(const Command&, RankOptions&) {}

Result<OpenStores> open_ranks(const RankOptions&) {
  return Error{Code::unsupported, 0,
               "tier sharded: this program was built without MPI (cmake -DENGRAM_MPI=ON)"};
}

std::string rank_directory(const std::string& path) { return path; }

bool first_rank() { return true; }

void end_ranks(bool) {}

}  // namespace engram::cli
