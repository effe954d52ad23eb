// Converts the tables of a model: what is asked, what it is made from, and the plan for it.
#include "engram/convert.hpp"
#include "engram/token_map.hpp"

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "convert/model_plan.hpp"
#include "convert/table_stream.hpp"
#include "convert/write_plan.hpp"

namespace engram {
namespace {

// The token map of the source: its own, or its tokenizer's; empty where it has neither.
Result<std::vector<CompressedId>> source_token_map(const Checkpoint& source, std::string& sha256) {
  if (source.token_map().empty() && source.tokenizer_path().empty()) {
    return std::vector<CompressedId>();
  }
  const auto map = source.token_map().empty()
                       ? TokenMap::from_tokenizer_file(source.tokenizer_path())
                       : TokenMap::from_ids(source.token_map(), source.directory());
  if (!map) return map.error();
  const ModelConfig& config = source.config();
  if (map->compressed_size() != config.compressed_vocab_size ||
      (!config.token_map_sha256.empty() && map->sha256() != config.token_map_sha256)) {
    return make_error(Code::corrupt,
                      "{}: its tokenizer is another model's: expected {} compressed ids, found {}",
                      source.directory(), config.compressed_vocab_size, map->compressed_size());
  }
  sha256 = map->sha256();
  return std::vector<CompressedId>(map->ids().begin(), map->ids().end());
}

Result<ModelPlan> plan_model(const PlanInput& input) {
  switch (input.target.container) {
    case Container::gguf_rows:
    case Container::gguf_blocks:
      return plan_gguf_model(input);
    case Container::paged:
      return plan_paged_model(input);
    default:
      return plan_safetensors_model(input);
  }
}

}  // namespace

Result<PlanInput> prepare_plan(const Checkpoint& source, const ConvertOptions& options,
                               const Target& target) {
  if (source.tables().empty()) {
    return make_error(Code::invalid_argument, "{}: no tables to convert", source.directory());
  }
  std::string sha256;
  auto map = source_token_map(source, sha256);
  if (!map) return std::move(map).error();
  const ModelConfig& config = source.config();
  // Without a map the pad's compressed id is unknown; constants of rows do not depend on it.
  const auto pad_index = static_cast<std::size_t>(config.pad_token_id);
  const CompressedId pad = pad_index < map->size() ? (*map)[pad_index] : 0;
  auto spec = HashSpec::compute(config.hash_config(pad));
  if (!spec) return std::move(spec).error();
  for (const std::int64_t layer : options.layers) {
    const auto index = spec->table_index(layer);
    if (!index) return index.error();
  }
  std::string names;
  for (const TableSource& table : source.tables()) {
    const auto name = table_fingerprint(table);
    if (!name) return name.error();
    names += *name;
  }
  auto name = sha256_hex(std::as_bytes(std::span(names)));
  if (!name) return std::move(name).error();
  return PlanInput{source,          options, target,          *std::move(spec),
                   *std::move(map), sha256,  *std::move(name)};
}

Status convert(const Checkpoint& source, const std::string& destination,
               const ConvertOptions& options) {
  const auto target = parse_target(options.to);
  if (!target) return target.error();
  const auto input = prepare_plan(source, options, *target);
  if (!input) return input.error();
  const auto plan = plan_model(*input);
  if (!plan) return plan.error();
  return write_plan({*plan, *input}, destination);
}

}  // namespace engram
