// Builds an Error from a code and a formatted sentence.
#include "base/error.hpp"

#include <cerrno>
#include <system_error>

namespace engram {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::corrupt:
      return "corrupt";
    case Code::unsupported:
      return "unsupported";
    case Code::io:
      return "io";
    case Code::out_of_memory:
      return "out_of_memory";
    case Code::out_of_range:
      return "out_of_range";
    case Code::unavailable:
      return "unavailable";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

Error system_error(int os_errno, std::string_view what, std::string_view where) {
  const Code code = os_errno == ENOENT   ? Code::not_found
                    : os_errno == ENOMEM ? Code::out_of_memory
                                         : Code::io;
  // std::error_code::message is thread-safe where strerror is not.
  const std::string reason = std::error_code(os_errno, std::generic_category()).message();
  return Error{code, os_errno, fmt::format("{}: {}: {}", where, what, reason)};
}

Error with_context(Error error, std::string_view where) {
  error.message = fmt::format("{}: {}", where, error.message);
  return error;
}

}  // namespace engram
