// Cuts a model's tables over ranks.
#include <fmt/format.h>

#include <algorithm>

#include "engram/convert.hpp"

#include "base/error.hpp"
#include "checkpoint/shard_manifest.hpp"
#include "convert/model_plan.hpp"
#include "convert/write_plan.hpp"

namespace engram {
namespace {

Result<ShardManifest> manifest_of(const PlanInput& input, const ShardOptions& options, int rank) {
  ShardManifest manifest{rank, options.world, std::string(partition_name(options.by)), {}};
  for (std::size_t table = 0; table < input.spec.layers().size(); ++table) {
    const LayerHash& layer = input.spec.layers()[table];
    const auto map =
        ShardMap::create(input.spec, static_cast<int>(table), options.by, options.world);
    if (!map) return map.error();
    manifest.layers.push_back({layer.layer_id, layer.row_count, map->rows(rank)});
  }
  return manifest;
}

Status check_shardable(const Checkpoint& source, const PlanInput& input) {
  if (source.shard()) {
    return make_error(Code::invalid_argument, "{}: is a shard already", source.directory());
  }
  for (std::size_t i = 0; i < source.tables().size(); ++i) {
    if (source.tables()[i].row_count == input.spec.layers()[i].row_count) continue;
    return make_error(Code::unsupported, "{}: layer {}: spare rows belong to no rank",
                      source.directory(), source.tables()[i].layer_id);
  }
  return {};
}

}  // namespace

Status shard(const Checkpoint& source, const std::string& destination,
             const ShardOptions& options) {
  ConvertOptions convert;
  convert.to = fmt::format("shard:{}:{}", partition_name(options.by), options.world);
  convert.rows_per_chunk = options.rows_per_chunk;
  convert.threads = options.threads;
  convert.tables_only = options.tables_only;
  convert.resume = options.resume;
  convert.progress = options.progress;
  const Target as_it_is{RowFormat::fp8_e4m3_e8m0, Container::official, true};
  auto input = prepare_plan(source, convert, as_it_is);
  if (!input) return std::move(input).error();
  ENGRAM_TRY(check_shardable(source, *input));
  ModelPlan all;
  for (int rank = 0; rank < std::max<std::int64_t>(options.world, 1); ++rank) {
    const auto manifest = manifest_of(*input, options, rank);
    if (!manifest) return manifest.error();
    input->shard = &*manifest;
    auto plan = plan_safetensors_model(*input);
    if (!plan) return std::move(plan).error();
    plan->texts.emplace_back(kShardManifestName, shard_manifest_json(*manifest));
    const std::string prefix = fmt::format("rank-{:05}/", rank);
    for (OutputFile& file : plan->files) {
      file.name = prefix + file.name;
      all.files.push_back(std::move(file));
    }
    for (auto& [name, text] : plan->texts) all.texts.emplace_back(prefix + name, std::move(text));
  }
  input->shard = nullptr;
  return write_plan({all, *input}, destination);
}

}  // namespace engram
