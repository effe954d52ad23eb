// Lays out a safetensors file: header first, then tensors at known offsets.
#include "convert/safetensors_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.hpp"
#include "base/json.hpp"

namespace engram {

SafetensorsPlan plan_safetensors(std::vector<TensorPlan> tensors,
                                 const std::map<std::string, std::string>& metadata,
                                 std::size_t alignment) {
  std::string json = "{";
  std::string fields;
  for (const auto& [name, value] : metadata) {
    fields += fmt::format("{}{}:{}", fields.empty() ? "" : ",", json_text(name), json_text(value));
  }
  if (!fields.empty()) json += "\"__metadata__\":{" + fields + "}";
  std::uint64_t payload_bytes = 0;
  for (TensorPlan& tensor : tensors) {
    tensor.offset_bytes = payload_bytes;
    payload_bytes += tensor.size_bytes;
    json += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json.size() > 1 ? "," : "", tensor.name, tensor.dtype,
                        fmt::join(tensor.shape, ","), tensor.offset_bytes, payload_bytes);
  }
  json += "}";
  constexpr std::size_t kLengthBytes = 8;
  const std::size_t end = (kLengthBytes + json.size() + alignment - 1) / alignment * alignment;
  json.resize(end - kLengthBytes, ' ');
  SafetensorsPlan plan;
  plan.header.resize(kLengthBytes);
  store_le(reinterpret_cast<std::byte*>(plan.header.data()),
           static_cast<std::uint64_t>(json.size()));
  plan.header += json;
  for (TensorPlan& tensor : tensors) tensor.offset_bytes += plan.header.size();
  plan.tensors = std::move(tensors);
  plan.file_bytes = plan.header.size() + payload_bytes;
  return plan;
}

}  // namespace engram
