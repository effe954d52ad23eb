// Progress on a terminal, and nothing where stderr is not one.
#pragma once

#include <string>

#include "engram/types.hpp"

namespace engram::cli {

// A bar on stderr for work that has lasted a second; empty (never called) off a terminal.
Progress progress_bar(std::string label);

}  // namespace engram::cli
