// A strict reader of safetensors headers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

#include "os/file.hpp"

namespace engram {

// Bits of one element of a safetensors dtype, or 0 where the name is unknown. Knows the aliases
// F8_E4M3FN and F8_E8M0FNU that some exporters write.
std::uint64_t safetensors_dtype_bits(std::string_view dtype);

struct SafetensorsHeader {
  std::vector<TensorExtent> tensors;  // in payload order
  std::map<std::string, std::string> metadata;
};

// The header of a file. Refused, each with its own message (Code::corrupt unless
// said): shorter than 8 bytes; a header longer than 100,000,000 bytes or than the file (checked
// before any allocation); not UTF-8, not JSON, not an object; a name twice; missing, doubled or
// unknown members; unknown dtype (Code::unsupported); a shape whose product overflows; byte counts
// that contradict dtype and shape; begin after end; holes; overlaps; a file that ends before or
// after the last tensor does.
// Source of the rules: huggingface/safetensors, Metadata::validate, and its format documentation.
Result<SafetensorsHeader> read_safetensors(const os::ReadableFile& file);

}  // namespace engram
