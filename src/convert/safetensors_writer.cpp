// Lays out and writes a safetensors file: header first, then tensors at known offsets.
#include "convert/safetensors_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.hpp"

namespace engram {

SafetensorsPlan plan_safetensors(std::vector<TensorPlan> tensors) {
  constexpr std::size_t kAlignment = 8;
  std::string json = "{";
  std::uint64_t payload_bytes = 0;
  for (TensorPlan& tensor : tensors) {
    tensor.offset_bytes = payload_bytes;
    payload_bytes += tensor.size_bytes;
    json += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json.size() > 1 ? "," : "", tensor.name, tensor.dtype,
                        fmt::join(tensor.shape, ","), tensor.offset_bytes, payload_bytes);
  }
  json += "}";
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  SafetensorsPlan plan;
  plan.header.resize(8);
  store_le(reinterpret_cast<std::byte*>(plan.header.data()),
           static_cast<std::uint64_t>(json.size()));
  plan.header += json;
  for (TensorPlan& tensor : tensors) tensor.offset_bytes += plan.header.size();
  plan.tensors = std::move(tensors);
  plan.file_bytes = plan.header.size() + payload_bytes;
  return plan;
}

}  // namespace engram
