// Failures of the library as Python exceptions, and work without the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // wherever a std::string is cast: two casters would clash

#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram::python {

namespace nb = nanobind;

// Raises the class of libengram._errors that belongs to the code, with the message as it is.
[[noreturn]] void raise(const Error& error);
[[noreturn]] void raise(Code code, std::string message);

inline void check(const Status& status) {
  if (!status) raise(status.error());
}

template <typename T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

// str(object).
inline std::string str_of(const nb::object& object) {
  return nb::cast<std::string>(nb::steal(PyObject_Str(object.ptr())));
}

// Runs `body` while other Python threads may run.
template <typename Body>
auto without_gil(Body&& body) {
  const nb::gil_scoped_release released;
  return std::forward<Body>(body)();
}

// A Python callable(done, total) as the library's progress, which cannot fail: the first exception
// of the callable ends the calls, and `rethrow` raises it once the work is over.
class ProgressCall {
 public:
  explicit ProgressCall(nb::object callable) : callable_(std::move(callable)) {}
  ProgressCall(const ProgressCall&) = delete;
  ProgressCall& operator=(const ProgressCall&) = delete;

  // Empty where there is no callable.
  Progress progress();
  void rethrow();

 private:
  nb::object callable_;
  std::exception_ptr raised_;
};

// What belongs to one thread at a time, while a call works without the interpreter lock.
class InUse {
 public:
  // Code::unavailable where another thread is at it; `what` names the object.
  InUse(std::atomic<bool>& flag, const char* what);
  ~InUse() { flag_.store(false); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace engram::python
