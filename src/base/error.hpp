// Builds an Error from a code and a formatted sentence.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "engram/status.hpp"

namespace engram {

template <typename... Args>
Error make_error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, 0, fmt::format(format, std::forward<Args>(args)...)};
}

// An Error of Code::io (not_found for ENOENT) that ends in the system's own words.
Error system_error(int os_errno, std::string_view what, std::string_view where);

// The same error with "where: " in front, for a caller that knows the file.
Error with_context(Error error, std::string_view where);

}  // namespace engram
