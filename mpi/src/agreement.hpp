// What ranks compare before they trust each other's rows.
#pragma once

#include <string>
#include <vector>

#include "engram/status.hpp"

#include "channel.hpp"

namespace engram::mpi {

// Values by name; a name is unique and both are one line.
struct Fact {
  std::string name;
  std::string value;
};

// Collective. `opened`: whether this rank could open its rows. Code::unavailable where another
// could not; Code::invalid_argument names the first fact that differs from rank 0's, and the rank.
// Every rank comes to the same verdict.
Status agree(Channel& channel, const std::vector<Fact>& facts, const Status& opened);

}  // namespace engram::mpi
