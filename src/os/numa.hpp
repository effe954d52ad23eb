// Memory nodes: how many there are, which is near, and where pages go.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engram/status.hpp"

namespace engram::os {

// Ids of the nodes that have memory, ascending; {0} where the system does not say.
const std::vector<int>& numa_nodes();
// The node of the processor that runs this thread; it may move at any time.
int current_numa_node();
// Pages of untouched memory go to one node, or to all nodes in turn. Code::unsupported.
Status bind_to_node(std::span<std::byte> bytes, int node);
Status interleave_nodes(std::span<std::byte> bytes);

}  // namespace engram::os
