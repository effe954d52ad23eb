// Lays out a GGUF file: keys, tensor infos, then tensors at aligned offsets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/output_file.hpp"

namespace engram {

// Collects the header of one file, version 3.
class GgufHeaderWriter {
 public:
  explicit GgufHeaderWriter(std::uint32_t alignment);

  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, std::span<const std::uint32_t> values);
  void add(std::string_view key, std::span<const std::uint64_t> values);

  // `type` is a ggml id; shape outermost first, in elements of the type.
  void add_tensor(TensorPlan tensor, std::uint32_t type);

  // The file so far, without streams: header, tensors with their offsets, size. Ends the object's
  // use.
  OutputFile finish(std::string name);

 private:
  void key(std::string_view name, std::uint32_t kind);

  std::uint32_t alignment_;
  std::uint64_t keys_ = 0;
  std::string fields_;
  std::vector<TensorPlan> tensors_;
  std::vector<std::uint32_t> types_;
};

}  // namespace engram
