// Plans GGUF models: ds4's rows with their scales inside, or llama.cpp's tables of a ggml type.
#include <fmt/format.h>

#include <numeric>

#include "base/error.hpp"
#include "checkpoint/gguf.hpp"
#include "convert/gate_stream.hpp"
#include "convert/gguf_writer.hpp"
#include "convert/model_plan.hpp"
#include "convert/table_stream.hpp"

namespace engram {
namespace {

constexpr std::uint32_t kRowsAlignment = 16384;  // as ds4's files have it
constexpr std::uint32_t kBlocksAlignment = 32;   // ggml's default
constexpr std::uint32_t kGgmlI8 = 24;
constexpr std::string_view kArchitecture = "deepseek41";

template <typename T>
std::vector<T> flat(const HashSpec& spec, std::vector<std::uint64_t> LayerHash::*field) {
  std::vector<T> values;
  for (const LayerHash& layer : spec.layers()) {
    for (const std::uint64_t value : layer.*field) values.push_back(static_cast<T>(value));
  }
  return values;
}

std::string key(std::string_view name) { return fmt::format("{}.{}", kArchitecture, name); }

// Keys that both dialects spell alike.
void add_common_keys(const PlanInput& input, GgufHeaderWriter& header) {
  const ModelConfig& config = input.source.config();
  header.add("general.architecture", kArchitecture);
  if (config.hidden_dim > 0) {
    header.add(key("embedding_length"), static_cast<std::uint32_t>(config.hidden_dim));
  }
  header.add(key("attention.layer_norm_rms_epsilon"), static_cast<float>(config.norm_eps));
  const std::vector<std::uint32_t> layers(config.layer_ids.begin(), config.layer_ids.end());
  header.add(key("engram.layer_ids"), layers);
  header.add(key("engram.pad_id"), static_cast<std::uint32_t>(config.pad_token_id));
  const std::vector<std::uint32_t> map(input.token_map.begin(), input.token_map.end());
  header.add(key("engram.token_map"), map);
  header.add(key("engram.multipliers"), flat<std::uint64_t>(input.spec, &LayerHash::multipliers));
}

void add_row_keys(const PlanInput& input, GgufHeaderWriter& header) {
  const bool fp8 = input.target.format == RowFormat::fp8_e4m3_e8m0;
  header.add(key("engram.encoding"),
             std::string_view(fp8 ? "e4m3_e8m0_32_row264" : "lloyd4_e5m3_32_r136"));
  std::vector<std::uint32_t> rows;
  for (const TableSource& table : input.source.tables()) {
    rows.push_back(static_cast<std::uint32_t>(table.row_count));
  }
  header.add(key("engram.rows"), rows);
  header.add(key("engram.compressed_vocab_size"),
             static_cast<std::uint32_t>(input.source.config().compressed_vocab_size));
  header.add(key("engram.primes"), flat<std::uint32_t>(input.spec, &LayerHash::primes));
}

void add_block_keys(const PlanInput& input, GgufHeaderWriter& header) {
  const ModelConfig& config = input.source.config();
  header.add(key("engram.head_count"), static_cast<std::uint32_t>(config.heads));
  header.add(key("engram.key_length"), static_cast<std::uint32_t>(config.head_dim));
  header.add(key("engram.max_ngram_size"), static_cast<std::uint32_t>(config.max_ngram_size));
  header.add(key("engram.primes"), flat<std::uint64_t>(input.spec, &LayerHash::primes));
  header.add(key("engram.offsets"), flat<std::uint64_t>(input.spec, &LayerHash::offsets));
}

// A gate tensor in the type that both dialects' files have.
Status add_number(const TensorExtent& tensor, const std::optional<TensorExtent>& scale,
                  RowFormat format, std::string name, GgufHeaderWriter& header,
                  std::vector<Stream>& streams) {
  auto stream = number_stream(tensor, scale, format, streams.size());
  if (!stream) return std::move(stream).error();
  const GgmlType type = ggml_type_of(format);
  header.add_tensor({std::move(name), std::string(type.name), tensor.shape,
                     stream->units * stream->unit_bytes(), 0},
                    type.id);
  streams.push_back(*std::move(stream));
  return {};
}

Status add_gates(const PlanInput& input, GgufHeaderWriter& header, std::vector<Stream>& streams) {
  if (input.options.tables_only) return {};
  const bool rows = input.target.container == Container::gguf_rows;
  for (const GateSource& gate : input.source.gates()) {
    const auto name = [&](std::string_view row_name, std::string_view block_name) {
      return fmt::format("blk.{}.{}.weight", gate.layer_id, rows ? row_name : block_name);
    };
    ENGRAM_TRY(add_number(gate.wkv, gate.wkv_scale, RowFormat::f16, name("engram_kv", "engram_wkv"),
                          header, streams));
    ENGRAM_TRY(add_number(gate.q_weight, {}, RowFormat::f32, name("engram_q_norm", "engram_q"),
                          header, streams));
    ENGRAM_TRY(add_number(gate.k_weight, {}, RowFormat::f32, name("engram_k_norm", "engram_k"),
                          header, streams));
  }
  return {};
}

Status add_tables(const PlanInput& input, GgufHeaderWriter& header, std::vector<Stream>& streams) {
  const bool rows = input.target.container == Container::gguf_rows;
  for (const TableSource& table : input.source.tables()) {
    const RowLayout layout = input.layout_of(table);
    auto opened = TableRows::open(table, layout, input.options.mxfp4);
    if (!opened) return std::move(opened).error();
    const std::uint64_t width = rows ? layout.row_bytes() : layout.head_dim;
    header.add_tensor({fmt::format("blk.{}.engram_embd.weight", table.layer_id),
                       "",
                       {table.row_count, width},
                       table.row_count * layout.row_bytes(),
                       0},
                      rows ? kGgmlI8 : ggml_type_of(layout.format).id);
    streams.push_back(
        row_stream(*std::move(opened), {streams.size()}, input.options.rows_per_chunk));
  }
  return {};
}

Status check_expressible(const PlanInput& input) {
  const ModelConfig& config = input.source.config();
  if (!input.options.layers.empty()) {
    return make_error(Code::invalid_argument, "a GGUF file holds every layer; leave --layers out");
  }
  if (input.source.shard()) {
    return make_error(Code::invalid_argument, "a GGUF file holds whole tables, not a shard");
  }
  if (input.token_map.empty()) {
    return make_error(Code::not_found,
                      "{}: a GGUF file carries the token map, and there is no "
                      "tokenizer.json to make it from",
                      input.source.directory());
  }
  if (input.target.container == Container::gguf_rows && config.head_dim != 256) {
    return make_error(Code::unsupported, "row264 and row136 have rows of 256, this table {}",
                      config.head_dim);
  }
  return {};
}

}  // namespace

Result<ModelPlan> plan_gguf_model(const PlanInput& input) {
  ENGRAM_TRY(check_expressible(input));
  const bool rows = input.target.container == Container::gguf_rows;
  GgufHeaderWriter header(rows ? kRowsAlignment : kBlocksAlignment);
  add_common_keys(input, header);
  if (rows) {
    add_row_keys(input, header);
  } else {
    add_block_keys(input, header);
  }
  std::vector<Stream> streams;
  ENGRAM_TRY(add_gates(input, header, streams));
  ENGRAM_TRY(add_tables(input, header, streams));
  ModelPlan plan;
  plan.files.push_back(header.finish("model.gguf"));
  plan.files.back().streams = std::move(streams);
  return plan;
}

}  // namespace engram
