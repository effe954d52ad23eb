// Reads through io_uring.
#pragma once

#include <memory>

#include "engram/status.hpp"

#include "os/block_reader.hpp"

namespace engram::os {

// Code::unavailable where the kernel or a container's policy does not allow rings.
Result<std::unique_ptr<BlockReader>> make_uring_reader();

}  // namespace engram::os
