// Assertions on Status and Result.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "engram/status.hpp"

namespace engram::test {

template <typename T>
::testing::AssertionResult is_ok(const T& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().message;
}

// Failed with this code, and a message that contains `words`.
template <typename T>
::testing::AssertionResult fails(const T& result, Code code, const std::string& words) {
  if (result)
    return ::testing::AssertionFailure() << "expected " << code_name(code) << ", found ok";
  const Error& error = result.error();
  if (error.code == code && error.message.find(words) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "expected " << code_name(code) << " with '" << words << "', found "
         << code_name(error.code) << ": " << error.message;
}

}  // namespace engram::test
