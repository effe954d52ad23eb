// Failures of the library as Python exceptions, and work without the interpreter lock.
#include "errors.hpp"

namespace engram::python {

void raise(const Error& error) {
  const nb::object make = nb::module_::import_("libengram._errors").attr("exception_of");
  const nb::object exception = make(static_cast<int>(error.code), error.message, error.os_errno);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  throw nb::python_error();
}

void raise(Code code, std::string message) { raise(Error{code, 0, std::move(message)}); }

Progress ProgressCall::progress() {
  if (callable_.is_none()) return {};
  return [this](std::uint64_t done, std::uint64_t total) {
    if (raised_) return;
    const nb::gil_scoped_acquire held;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      callable_(done, total);
    } catch (...) {
      raised_ = std::current_exception();
    }
  };
}

void ProgressCall::rethrow() {
  if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
}

InUse::InUse(std::atomic<bool>& flag, const char* what) : flag_(flag) {
  if (flag.exchange(true)) {
    raise(Code::unavailable, std::string(what) + ": in use by another thread");
  }
}

}  // namespace engram::python
