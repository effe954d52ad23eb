// Cuts a model's tables over ranks.
#include <fmt/format.h>

#include "engram/convert.hpp"

#include "base/error.hpp"
#include "checkpoint/shard_manifest.hpp"
#include "convert/model_plan.hpp"
#include "convert/write_plan.hpp"
#include "hash/partition.hpp"

namespace engram {
namespace {

constexpr std::int64_t kRanksMax = 1024;

std::string_view partition_name(Partition partition) {
  switch (partition) {
    case Partition::rows:
      return "rows";
    case Partition::heads:
      return "heads";
    case Partition::strided:
      return "strided";
  }
  return "";
}

ShardManifest manifest_of(const PlanInput& input, const ShardOptions& options, std::int64_t rank) {
  ShardManifest manifest{rank, options.world, std::string(partition_name(options.by)), {}};
  for (const LayerHash& layer : input.spec.layers()) {
    manifest.layers.push_back(
        {layer.layer_id, layer.row_count,
         partition_rows(layer, options.by, static_cast<std::uint64_t>(options.world),
                        static_cast<std::uint64_t>(rank))});
  }
  return manifest;
}

Status check_shardable(const Checkpoint& source, const PlanInput& input,
                       const ShardOptions& options) {
  if (options.world < 1 || options.world > kRanksMax) {
    return make_error(Code::invalid_argument, "shard: expected 1..{} ranks, found {}", kRanksMax,
                      options.world);
  }
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
  ENGRAM_TRY(check_shardable(source, *input, options));
  ModelPlan all;
  for (std::int64_t rank = 0; rank < options.world; ++rank) {
    const ShardManifest manifest = manifest_of(*input, options, rank);
    input->shard = &manifest;
    auto plan = plan_safetensors_model(*input);
    if (!plan) return std::move(plan).error();
    plan->texts.emplace_back(kShardManifestName, shard_manifest_json(manifest));
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
