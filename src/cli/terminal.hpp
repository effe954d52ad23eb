// Progress on a terminal, and nothing where stderr is not one.
#pragma once

#include <string>

#include "engram/types.hpp"

namespace engram::cli {

// What a piece of work counts in: bytes are shown with their speed.
enum class Counts { bytes, other };

// A bar on stderr for work that has lasted a second, with the time left; empty (never called) off a
// terminal.
Progress progress_bar(std::string label, Counts counts = Counts::bytes);

}  // namespace engram::cli
