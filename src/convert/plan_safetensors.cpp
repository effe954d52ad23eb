// Plans the safetensors containers: official, NVIDIA, MLX and Ascend.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/json.hpp"
#include "convert/gate_stream.hpp"
#include "convert/model_plan.hpp"
#include "convert/table_stream.hpp"

namespace engram {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

// Ordinary shards of an Ascend export aim at this size.
constexpr std::uint64_t kAscendShardBytes = std::uint64_t{2} << 30;

// A file under construction.
struct Draft {
  std::string name;
  std::vector<TensorPlan> tensors;
  std::vector<Stream> streams;

  OutputFile finish() && {
    SafetensorsPlan plan = plan_safetensors(std::move(tensors));
    return {std::move(name), std::move(plan.header), std::move(plan.tensors), std::move(streams),
            plan.file_bytes};
  }
};

std::string_view prefix_of(Container container) {
  return container == Container::mlx ? "language_model." : "";
}

// weight, and scale and bias where the format has them.
Result<std::vector<TensorPlan>> table_tensors(const RowLayout& layout, std::uint64_t rows,
                                              std::int64_t layer, Container container) {
  const SplitDtypes* dtypes = split_dtypes(layout, container);
  if (dtypes == nullptr) {
    return make_error(Code::unsupported, "rows of '{}' do not split into safetensors",
                      row_format_name(layout.format));
  }
  const std::string base = fmt::format("{}layers.{}.engram.embed.", prefix_of(container), layer);
  const std::uint64_t groups = layout.head_dim / layout.group;
  const bool words = dtypes->weight == "U32";
  std::vector<TensorPlan> tensors = {{base + "weight",
                                      std::string(dtypes->weight),
                                      {rows, layout.code_bytes() / dtypes->weight_bytes},
                                      rows * layout.code_bytes(),
                                      0}};
  if (!dtypes->scale.empty()) {
    tensors.push_back({base + (words ? "scales" : "scale"),
                       std::string(dtypes->scale),
                       {rows, groups},
                       rows * layout.scale_bytes(),
                       0});
  }
  if (!dtypes->bias.empty()) {
    tensors.push_back({base + "biases",
                       std::string(dtypes->bias),
                       {rows, groups},
                       rows * layout.bias_bytes(),
                       0});
  }
  return tensors;
}

// Adds a table's tensors and the stream that fills them.
Status add_table(const PlanInput& input, std::size_t index, Draft& draft) {
  const TableSource& table = input.source.tables()[index];
  const RowLayout layout = input.layout_of(table);
  std::optional<std::vector<RowRange>> held;
  if (input.shard != nullptr) held = input.shard->layers[index].held;
  auto rows = TableRows::open(table, layout, input.options.mxfp4, held);
  if (!rows) return std::move(rows).error();
  auto tensors = table_tensors(layout, rows->count(), table.layer_id, input.target.container);
  if (!tensors) return std::move(tensors).error();
  std::vector<std::size_t> places;
  for (TensorPlan& tensor : *tensors) {
    places.push_back(draft.tensors.size());
    draft.tensors.push_back(std::move(tensor));
  }
  draft.streams.push_back(row_stream(*std::move(rows), places, input.options.rows_per_chunk));
  return {};
}

// The gate of a layer, or null where the source has none or the tables go alone.
const GateSource* gate_of(const PlanInput& input, std::size_t index) {
  const auto& gates = input.source.gates();
  return input.options.tables_only || gates.empty() ? nullptr : &gates[index];
}

Result<ModelPlan> plan_shards(const PlanInput& input) {
  ModelPlan plan;
  const auto& tables = input.source.tables();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (!input.takes(tables[i])) continue;
    Draft draft{fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, tables.size()), {}, {}};
    ENGRAM_TRY(add_table(input, i, draft));
    if (const GateSource* gate = gate_of(input, i)) {
      const GateStyle style{prefix_of(input.target.container), false, input.rotation};
      ENGRAM_TRY(add_gate(*gate, style, draft.tensors, draft.streams));
    }
    plan.files.push_back(std::move(draft).finish());
  }
  return plan;
}

// Whole tables in files of their own: engram_embed_weight_l1.safetensors, engram_embed_scale_l1.
Status plan_ascend_tables(const PlanInput& input, ModelPlan& plan) {
  for (std::size_t i = 0; i < input.source.tables().size(); ++i) {
    const TableSource& table = input.source.tables()[i];
    if (!input.takes(table)) continue;
    Draft whole;
    ENGRAM_TRY(add_table(input, i, whole));
    // One stream fills both files: they are made one after the other, each from its own pass.
    for (std::size_t part = 0; part < whole.tensors.size(); ++part) {
      const std::string_view kind = part == 0 ? "weight" : "scale";
      Draft draft{fmt::format("engram_embed_{}_l{}.safetensors", kind, table.layer_id),
                  {whole.tensors[part]},
                  {}};
      Stream stream = whole.streams[0];
      const std::size_t before = part == 0 ? 0 : stream.parts[0].unit_bytes;
      const std::size_t bytes = stream.parts[part].unit_bytes;
      const std::size_t row_bytes = stream.unit_bytes();
      stream.input_bytes += row_bytes;
      stream.parts = {{0, bytes}};
      stream.produce = [make = whole.streams[0].produce, before, bytes, row_bytes](
                           std::uint64_t first, std::uint64_t count,
                           std::span<std::byte> out) -> Status {
        std::vector<std::byte> rows(count * row_bytes);
        ENGRAM_TRY(make(first, count, rows));
        for (std::uint64_t row = 0; row < count; ++row) {
          std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(row * row_bytes + before), bytes,
                      out.begin() + static_cast<std::ptrdiff_t>(row * bytes));
        }
        return {};
      };
      draft.streams.push_back(std::move(stream));
      plan.files.push_back(std::move(draft).finish());
    }
  }
  return {};
}

Status plan_ascend_gates(const PlanInput& input, ModelPlan& plan) {
  std::vector<Draft> shards;
  std::uint64_t bytes = kAscendShardBytes;
  for (std::size_t i = 0; i < input.source.tables().size(); ++i) {
    const GateSource* gate = gate_of(input, i);
    if (gate == nullptr || !input.takes(input.source.tables()[i])) continue;
    Draft one;
    ENGRAM_TRY(add_gate(*gate, {"", true}, one.tensors, one.streams));
    std::uint64_t size = 0;
    for (const TensorPlan& tensor : one.tensors) size += tensor.size_bytes;
    if (bytes + size > kAscendShardBytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += size;
    Draft& shard = shards.back();
    for (Stream& stream : one.streams) {
      for (Stream::Part& part : stream.parts) part.tensor += shard.tensors.size();
      shard.streams.push_back(std::move(stream));
    }
    for (TensorPlan& tensor : one.tensors) shard.tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].name =
        fmt::format("quant_model_weights-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    plan.files.push_back(std::move(shards[i]).finish());
  }
  return {};
}

// quant_model_description.json: how each table is stored. Source: the published export.
std::string ascend_description(const PlanInput& input, const ModelPlan& plan) {
  std::string modules;
  for (const TableSource& table : input.source.tables()) {
    if (!input.takes(table)) continue;
    const RowLayout layout = input.layout_of(table);
    const bool int8 = layout.format == RowFormat::int8_f32;
    modules += fmt::format(
        R"({}"layers.{}.engram.embed":{{"format":"{}","weight_dtype":"{}","weight_shape":[{},{}],)"
        R"("layout":"row_major"{}}})",
        modules.empty() ? "" : ",", table.layer_id, int8 ? "int8" : "bf16", int8 ? "I8" : "BF16",
        table.row_count, layout.head_dim,
        int8 ? fmt::format(R"(,"scale_dtype":"F32","scale_shape":[{},{}])", table.row_count,
                           layout.head_dim / layout.group)
             : "");
  }
  std::string tensors;
  for (const OutputFile& file : plan.files) {
    for (const TensorPlan& tensor : file.tensors) {
      tensors +=
          fmt::format("{}:\"{}\",", json_text(tensor.name), tensor.dtype == "I8" ? "W8" : "FLOAT");
    }
  }
  return fmt::format(R"({{{}"optional":{{"embedding_storage":{{"version":2,"modules":{{{}}}}}}}}})"
                     "\n",
                     tensors, modules);
}

// What NVIDIA's export declares. Source: its config.json as published.
Members nvfp4_declaration(const PlanInput& input) {
  return {{"engram_embed_quant", "\"mxfp4\""},
          {"engram_embed_block_size", "32"},
          {"engram_embed_layers",
           fmt::format("[{}]", fmt::join(input.source.config().layer_ids, ","))}};
}

// The key by which oMLX finds tables.
std::string omlx_declaration(const ModelPlan& plan) {
  std::string tables;
  for (const OutputFile& file : plan.files) {
    const std::string& weight = file.tensors[0].name;
    tables +=
        fmt::format(R"({}{}:{{"weight_file":{},"weight_key":{},"scale_file":{},"scale_key":{},)"
                    R"("bias_key":null,"bits":8,"group_size":32,"mode":"mxfp8"}})",
                    tables.empty() ? "" : ",", json_text(weight.substr(0, weight.rfind('.'))),
                    json_text(file.name), json_text(weight), json_text(file.name),
                    json_text(file.tensors[1].name));
  }
  return fmt::format(R"({{"version":1,"engram_tables":{{{}}},"engram_in_index":true}})", tables);
}

}  // namespace

Result<ModelPlan> plan_safetensors_model(const PlanInput& input) {
  const Container container = input.target.container;
  Members declarations;
  std::string index = "model.safetensors.index.json";
  ModelPlan plan;
  if (container == Container::ascend) {
    ENGRAM_TRY(plan_ascend_tables(input, plan));
    ENGRAM_TRY(plan_ascend_gates(input, plan));
    plan.texts.emplace_back("quant_model_description.json", ascend_description(input, plan));
    index = "quant_model_weights.safetensors.index.json";
  } else {
    auto shards = plan_shards(input);
    if (!shards) return shards;
    plan = *std::move(shards);
    if (container == Container::mlx) {
      declarations = {{"omlx_deepseek_v41", omlx_declaration(plan)}};
    }
  }
  const RowFormat format = input.layout_of(input.source.tables()[0]).format;
  if (container == Container::official && format != RowFormat::fp8_e4m3_e8m0) {
    declarations.emplace_back("quantization_config.engram_dtype",
                              json_text(row_format_name(format)));
  }
  if (input.rotation != nullptr) {
    declarations.emplace_back("engram_rotation_config",
                              R"({"value_projection_rotated":true,"value_basis":"quarot_global",)"
                              R"("key_and_gate_basis":"original","runtime_delta_rotation":false})");
  }
  if (container == Container::nvfp4) {
    for (auto& [name, value] : nvfp4_declaration(input)) {
      declarations.emplace_back("quantization_config." + name, std::move(value));
    }
  }
  ENGRAM_TRY(add_companions(input, index, declarations, plan));
  return plan;
}

}  // namespace engram
