// Looks up keys and tensors of a GGUF header under the names of every dialect.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engram/status.hpp"

#include "checkpoint/gguf.hpp"

namespace engram {

// Keeps what was asked for and missing, so that one error can name all of it. Borrows the header.
class GgufFields {
 public:
  using Names = std::initializer_list<std::string_view>;

  GgufFields(const GgufHeader& header, std::string where);

  // general.architecture, the prefix of every key; empty where it is missing.
  const std::string& architecture() const { return architecture_; }
  const std::string& where() const { return where_; }

  // The value of ARCHITECTURE.NAME for the first of `names` that is there, or null; the second
  // where it also has type T.
  const GgufValue* find(Names names) const;
  template <typename T>
  const T* find_as(Names names) const {
    const GgufValue* value = find(names);
    return value == nullptr ? nullptr : std::get_if<T>(value);
  }

  const TensorExtent* tensor(Names names) const;
  // Tensor blk.LAYER.PART, with or without ".weight".
  const TensorExtent* layer_tensor(std::int64_t layer, Names parts) const;

  // Integers from a key, or else from a tensor of integers (dialect D; empty: no such tensor).
  std::vector<std::int64_t> integers(Names keys, std::string_view tensor_name);
  std::int64_t integer(Names keys);

  // Code::corrupt naming everything that integers() and integer() did not find.
  Status complete() const;

 private:
  const GgufHeader& header_;
  std::string where_;
  std::string architecture_;
  std::vector<std::string> missing_;
  Status status_;
};

}  // namespace engram
