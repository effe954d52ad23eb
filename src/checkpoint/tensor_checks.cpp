// Checks of a tensor's dtype and shape, each with its message.
#include "checkpoint/tensor_checks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace engram {

bool is_fp8(std::string_view dtype) { return dtype == "F8_E4M3" || dtype == "F8_E4M3FN"; }

bool is_e8m0(std::string_view dtype) {
  return dtype == "F8_E8M0" || dtype == "F8_E8M0FNU" || dtype == "U8";
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Status check_shape(const TensorExtent& tensor, std::initializer_list<std::uint64_t> expected) {
  if (std::equal(tensor.shape.begin(), tensor.shape.end(), expected.begin(), expected.end())) {
    return {};
  }
  return make_error(Code::corrupt, "{}: '{}': expected shape {}, found {}", tensor.path,
                    tensor.name, shape_text(std::span(expected.begin(), expected.size())),
                    shape_text(tensor.shape));
}

Error wrong_dtype(const TensorExtent& tensor, std::string_view expected) {
  const bool fnuz = tensor.dtype.find("FNUZ") != std::string::npos;
  return make_error(Code::unsupported, "{}: '{}': expected dtype {}, found {}{}", tensor.path,
                    tensor.name, expected, tensor.dtype,
                    fnuz ? " (another number format, with half the value per code)" : "");
}

}  // namespace engram
