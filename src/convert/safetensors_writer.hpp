// Lays out a safetensors file: header first, then tensors at known offsets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engram/status.hpp"

namespace engram {

struct TensorPlan {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t size_bytes = 0;
  std::uint64_t offset_bytes = 0;  // in the file; filled in by plan_safetensors
};

struct SafetensorsPlan {
  std::string header;  // the length word and the JSON, padded so that the payload is aligned
  std::vector<TensorPlan> tensors;
  std::uint64_t file_bytes = 0;
};

// Compact JSON in the given order, as the official shards have it. `alignment` is of the payload's
// first byte in the file; metadata becomes __metadata__ where there is any.
SafetensorsPlan plan_safetensors(std::vector<TensorPlan> tensors,
                                 const std::map<std::string, std::string>& metadata = {},
                                 std::size_t alignment = 8);

}  // namespace engram
