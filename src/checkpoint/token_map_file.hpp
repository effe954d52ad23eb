// engram_token_map.i32: the map itself, where a model comes without the tokenizer it is made from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

// int32 little endian, one per token id, nothing else. Source: the Intel Arc engine's files.
inline constexpr std::string_view kTokenMapFileName = "engram_token_map.i32";

// Empty where the directory has no such file.
Result<std::vector<CompressedId>> read_token_map_file(const std::string& directory);

}  // namespace engram
