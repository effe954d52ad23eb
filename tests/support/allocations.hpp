// Counts calls of operator new in the test program.
#pragma once

#include <cstdint>

namespace engram::test {

// Since the program began. Always 0 under a sanitizer, which brings its own operator new.
std::uint64_t allocation_count();

}  // namespace engram::test
