// Every file of a model to be written, planned before a byte is.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/convert.hpp"
#include "engram/gate.hpp"
#include "engram/status.hpp"

#include "convert/output_file.hpp"
#include "convert/target.hpp"

namespace engram {

struct ModelPlan {
  std::vector<OutputFile> files;
  // Small files: name and text.
  std::vector<std::pair<std::string, std::string>> texts;

  std::uint64_t total_bytes() const;
};

// What the planners work from. Borrows the checkpoint.
struct PlanInput {
  const Checkpoint& source;
  ConvertOptions options;
  Target target;
  HashSpec spec;                        // of the whole model
  std::vector<CompressedId> token_map;  // [vocab_size]
  std::string token_map_sha256;
  std::string source_name;                 // fingerprint of the source tables
  const ShardManifest* shard = nullptr;    // take these rows only
  const GateRotation* rotation = nullptr;  // fold this into the value rows of wkv

  // The layout of a table's rows in the target.
  RowLayout layout_of(const TableSource& table) const;
  bool takes(const TableSource& table) const;
};

// Code::invalid_argument, Code::not_found, Code::corrupt: what convert() refuses before it plans.
Result<PlanInput> prepare_plan(const Checkpoint& source, const ConvertOptions& options,
                               const Target& target);

Result<ModelPlan> plan_safetensors_model(const PlanInput& input);
Result<ModelPlan> plan_gguf_model(const PlanInput& input);
Result<ModelPlan> plan_paged_model(const PlanInput& input);

// config.json, tokenizer.json (or the map itself) and the index of a plan's files, added to it.
// `declarations`: members for config.json. No index where only some layers are taken, so that the
// files of several conversions can be put together.
Status add_companions(const PlanInput& input, std::string_view index_name,
                      const std::vector<std::pair<std::string, std::string>>& declarations,
                      ModelPlan& plan);

// How a gate's tensors are written.
struct GateStyle {
  std::string_view prefix;  // of tensor names
  bool narrow = false;      // to bfloat16 without loss, also where safetensors has their dtype
  const GateRotation* rotation = nullptr;
};

// Puts a gate's tensors and their streams into a file: copied where safetensors has their dtype,
// narrowed to bfloat16 without loss otherwise.
Status add_gate(const GateSource& gate, const GateStyle& style, std::vector<TensorPlan>& tensors,
                std::vector<Stream>& streams);

}  // namespace engram
