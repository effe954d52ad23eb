// Where tests find data: the project's own, and large facts that the project does not carry.
#pragma once

#include <string>

namespace engram::test {

// A file of tests/.
std::string test_data(const std::string& name);
// A file of the optional folder beside the checkout; it may not be there.
std::string shared_data(const std::string& name);

}  // namespace engram::test
