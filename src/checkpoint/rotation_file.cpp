// The rotation of the residual stream that comes with a quarot export.
#include "checkpoint/rotation_file.hpp"

#include <algorithm>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_checks.hpp"
#include "codec/elements.hpp"

namespace engram {
namespace {

constexpr std::string_view kTensor = "global_rotation";

float element(std::string_view dtype, const std::byte* bytes, std::size_t i) {
  if (dtype == "F32") return load_le<float>(bytes + 4 * i);
  if (dtype == "F64") return static_cast<float>(load_le<double>(bytes + 8 * i));
  const auto bits = load_le<std::uint16_t>(bytes + 2 * i);
  return dtype == "F16" ? float_from_half(bits) : float_from_bfloat16(bits);
}

}  // namespace

Result<TensorExtent> find_rotation(const std::string& path, std::int64_t width) {
  const auto file = os::open_file(path);
  if (!file) return file.error();
  auto header = read_safetensors(**file);
  if (!header) return std::move(header).error();
  const auto found = std::find_if(header->tensors.begin(), header->tensors.end(),
                                  [](const TensorExtent& t) { return t.name == kTensor; });
  if (found == header->tensors.end()) {
    return make_error(Code::corrupt, "{}: no tensor '{}'", path, kTensor);
  }
  const auto size = static_cast<std::uint64_t>(width);
  ENGRAM_TRY(check_shape(*found, {size, size}));
  for (const std::string_view dtype : {"F32", "F64", "F16", "BF16"}) {
    if (found->dtype == dtype) return std::move(*found);
  }
  return wrong_dtype(*found, "F32, F64, F16 or BF16");
}

Result<std::vector<float>> read_rotation(const TensorExtent& rotation) {
  const auto file = os::open_file(rotation.path);
  if (!file) return file.error();
  std::vector<std::byte> bytes(rotation.size_bytes);
  ENGRAM_TRY((*file)->read_at(rotation.offset_bytes, bytes));
  std::vector<float> elements(rotation.shape[0] * rotation.shape[1]);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = element(rotation.dtype, bytes.data(), i);
  }
  return elements;
}

}  // namespace engram
