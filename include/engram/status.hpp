// Status and Result: how every fallible function of the library reports failure.
//
//   Result<TokenMap> map = TokenMap::from_tokenizer_file("tokenizer.json");
//   if (!map) return std::move(map).error();
//   use(*map);
//
// The library never throws on its own, aborts, exits or prints (std::bad_alloc of the standard
// library passes through). A message is one sentence that says what was
// looked at, where, what was expected and what was found. Values are immutable once made, so any
// thread may read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "engram/export.h"

namespace engram {

// What a caller can act on. The numbers are part of the C ABI and never change.
enum class Code : std::int32_t {
  ok = 0,
  invalid_argument = 1,  // the call is wrong: fix the caller
  not_found = 2,         // a file, tensor or layer is not there
  corrupt = 3,           // bytes contradict their own description: fetch them again
  unsupported = 4,       // well-formed, but this library does not read it
  io = 5,                // the operating system refused; os_errno says why
  out_of_memory = 6,     // the plan does not fit this machine
  out_of_range = 7,      // an id or index outside its table
  unavailable = 8,       // not now: another owner, or not ready yet
  internal = 9,          // our bug
};

// "invalid_argument", "corrupt", ... : the enumerator's own name.
ENGRAM_API std::string_view code_name(Code code);

struct [[nodiscard]] Error {
  Code code = Code::internal;
  int os_errno = 0;  // 0 where the operating system was not involved
  std::string message;
};

// Success, or an Error. Cheap to return: success holds no string.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  // Requires: !has_value().
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

// A value of T, or an Error; never neither. Member names are std::expected's, so that C++23 can
// replace it.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // Requires: has_value().
  T& value() & { return *std::get_if<0>(&state_); }
  const T& value() const& { return *std::get_if<0>(&state_); }
  T&& value() && { return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

  // Requires: !has_value().
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace engram

// Returns the error of a Status expression from the enclosing function, if there is one. The
// counter gives every use its own name, so that one may stand in a lambda inside another.
#define ENGRAM_TRY(expression) ENGRAM_TRY_NUMBERED(__COUNTER__, expression)
#define ENGRAM_TRY_NUMBERED(number, expression) ENGRAM_TRY_JOIN(number, expression)
#define ENGRAM_TRY_JOIN(number, expression) ENGRAM_TRY_NAMED(engram_try_##number, expression)
#define ENGRAM_TRY_NAMED(name, expression)                                                      \
  do {                                                                                          \
    if (::engram::Status name = (expression); !name) { /* NOLINT(bugprone-macro-parentheses) */ \
      return std::move(name).error();                                                           \
    }                                                                                           \
  } while (false)
