// A model in GGUF files: constants, token map, tables and gate weights, whichever dialect spells
// them.
//
// Dialect A (ds4) interleaves FP8 rows of 264 bytes, or Lloyd4 rows of 136, as I8 tensors and names
// the encoding; B (llama.cpp) stores tables as any ggml type; C is B with other keys; D keeps FP8
// codes and scales as two I8 tensors and its constants as tensors.
#pragma once

#include <string>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

namespace engram {

struct GgufModel {
  ModelConfig config;
  std::vector<CompressedId> token_map;  // [vocab_size]
  std::vector<TableSource> tables;
  std::vector<GateSource> gates;     // empty unless complete
  std::vector<std::string> missing;  // gate tensors that are not there
};

// Code::corrupt where the file's own multipliers, primes or offsets are not those its geometry
// gives, or lists what a conversion left out; Code::unsupported for an unknown encoding.
Result<GgufModel> read_gguf_model(const std::string& path, const CheckpointOptions& options);

}  // namespace engram
