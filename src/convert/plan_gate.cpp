// Plans a gate's tensors: copied, narrowed without loss, or rotated.
#include <fmt/format.h>

#include "convert/gate_stream.hpp"
#include "convert/model_plan.hpp"

namespace engram {
namespace {

// One tensor of a gate: as it lies where safetensors has its dtype, else bfloat16.
Status add_tensor(const TensorExtent& tensor, const std::optional<TensorExtent>& scale,
                  const std::string& name, bool narrow, std::vector<TensorPlan>& tensors,
                  std::vector<Stream>& streams) {
  const bool copies = tensor.dtype == "BF16" || (!narrow && scale);
  auto stream = copies ? copy_stream(tensor, tensors.size())
                       : number_stream(tensor, scale, RowFormat::bf16, tensors.size());
  if (!stream) return std::move(stream).error();
  const std::uint64_t bytes = stream->units * stream->unit_bytes();
  streams.push_back(*std::move(stream));
  tensors.push_back({name + "weight", copies ? tensor.dtype : "BF16", tensor.shape, bytes, 0});
  if (!copies || !scale) return {};
  auto scales = copy_stream(*scale, tensors.size());
  if (!scales) return std::move(scales).error();
  streams.push_back(*std::move(scales));
  tensors.push_back({name + "scale", scale->dtype, scale->shape, scale->size_bytes, 0});
  return {};
}

Status add_rotated(const GateSource& gate, const GateRotation& rotation, const std::string& name,
                   std::vector<TensorPlan>& tensors, std::vector<Stream>& streams) {
  const std::uint64_t value_rows = gate.q_weight.shape.back();
  auto stream = rotated_stream(gate, rotation, value_rows, tensors.size());
  if (!stream) return std::move(stream).error();
  const std::uint64_t bytes = stream->units * stream->unit_bytes();
  streams.push_back(*std::move(stream));
  tensors.push_back({name + "weight", "BF16", gate.wkv.shape, bytes, 0});
  return {};
}

}  // namespace

Status add_gate(const GateSource& gate, const GateStyle& style, std::vector<TensorPlan>& tensors,
                std::vector<Stream>& streams) {
  const std::string base = fmt::format("{}layers.{}.engram.", style.prefix, gate.layer_id);
  if (style.rotation != nullptr) {
    ENGRAM_TRY(add_rotated(gate, *style.rotation, base + "wkv.", tensors, streams));
  } else {
    ENGRAM_TRY(add_tensor(gate.wkv, gate.wkv_scale, base + "wkv.", style.narrow, tensors, streams));
  }
  ENGRAM_TRY(add_tensor(gate.q_weight, {}, base + "q_", style.narrow, tensors, streams));
  return add_tensor(gate.k_weight, {}, base + "k_", style.narrow, tensors, streams);
}

}  // namespace engram
