// Where tests find data. Only this file is compiled with the checkout's place, so that compilations
// of all others are the same wherever it stands.
#include "tests/support/paths.hpp"

namespace engram::test {

std::string test_data(const std::string& name) {
  return std::string(ENGRAM_TEST_DIR) + "/" + name;
}

std::string shared_data(const std::string& name) {
  return std::string(ENGRAM_SHARED_DIR) + "/" + name;
}

}  // namespace engram::test
