// Runs independent pieces of one job on a few threads that end with the call.
#pragma once

#include <cstddef>
#include <functional>

#include "engram/status.hpp"

namespace engram {

// Calls body(piece) once for every piece in [0, piece_count), on at most `threads` threads, the
// caller's among them; pieces are taken in order. After the first failure no further piece is
// begun, and that failure is returned. threads <= 1 runs inline and starts no thread.
// Starting a thread costs tens of microseconds: use for milliseconds of work and more.
Status parallel_for(std::size_t piece_count, int threads,
                    const std::function<Status(std::size_t piece)>& body);

// The number of processors this process may run on, at least 1.
int usable_processors();

}  // namespace engram
