// Checks of a tensor's dtype and shape, each with its message.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

namespace engram {

// E4M3FN codes; FNUZ is another format.
bool is_fp8(std::string_view dtype);
// E8M0 scale bytes, which some exporters call U8.
bool is_e8m0(std::string_view dtype);

// "[660, 32]"
std::string shape_text(std::span<const std::uint64_t> shape);

Status check_shape(const TensorExtent& tensor, std::initializer_list<std::uint64_t> expected);
Error wrong_dtype(const TensorExtent& tensor, std::string_view expected);

}  // namespace engram
