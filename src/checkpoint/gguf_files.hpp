// Which files make up a GGUF model: one, a split set, or raw parts of one.
#pragma once

#include <string>
#include <vector>

#include "engram/status.hpp"

#include "checkpoint/gguf.hpp"

namespace engram {

// Whether a path names a GGUF file or part, or a directory of them without safetensors.
bool is_gguf_model(const std::string& path);

// All headers of the model, tensors knowing their files, metadata that of the first file.
// Split sets are NAME-00001-of-00003.gguf; raw parts (one file cut anywhere) follow the whole name:
// NAME.gguf.part1, NAME.gguf.00, NAME.gguf-split-a. Code::invalid_argument where a directory holds
// several models; Code::not_found names a missing part; Code::corrupt where parts disagree.
Result<GgufHeader> read_gguf_files(const std::string& path);

}  // namespace engram
