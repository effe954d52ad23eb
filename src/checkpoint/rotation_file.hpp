// The rotation of the residual stream that comes with a quarot export.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

namespace engram {

// Where such exports keep it, inside the model directory.
inline constexpr std::string_view kRotationPath = "optional/quarot.safetensors";

// Tensor global_rotation of a safetensors file: [width, width] in F32, F64, F16 or BF16.
Result<TensorExtent> find_rotation(const std::string& path, std::int64_t width);
// Its elements, row-major.
Result<std::vector<float>> read_rotation(const TensorExtent& rotation);

}  // namespace engram
