// The vectors of tests/golden/golden.json. Tests read them and never rewrite them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary.hpp"

namespace engram::test {

// The vector with this id; lives as long as the program.
inline JsonElement golden(std::string_view id) {
  static const auto document =
      JsonDocument::parse(read_file(test_data("golden/golden.json")), "golden");
  EXPECT_TRUE(document) << document.error().message;
  for (const JsonElement vector :
       JsonArray(document->root()["vectors"].get_array().value_unsafe())) {
    if (vector["id"].get_string().value_unsafe() == id) return vector;
  }
  ADD_FAILURE() << "no vector " << id;
  return document->root();
}

// The member at a path of names.
inline JsonElement at(JsonElement element, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) element = element[name].value_unsafe();
  return element;
}

// All numbers in an element, depth first.
template <typename T>
std::vector<T> flat(JsonElement element) {
  std::vector<T> numbers;
  if (element.is_array()) {
    for (const JsonElement item : JsonArray(element.get_array().value_unsafe())) {
      const auto inner = flat<T>(item);
      numbers.insert(numbers.end(), inner.begin(), inner.end());
    }
  } else if (element.is_uint64() || element.is_int64()) {
    numbers.push_back(static_cast<T>(element.get_int64().value_unsafe()));
  }
  return numbers;
}

template <typename T>
std::vector<T> flat_unsigned(JsonElement element) {
  std::vector<T> numbers;
  for (const JsonElement item : JsonArray(element.get_array().value_unsafe())) {
    numbers.push_back(static_cast<T>(item.get_uint64().value_unsafe()));
  }
  return numbers;
}

}  // namespace engram::test
