// engram-shard.json: which rows of each table a rank's directory holds.
#include "checkpoint/shard_manifest.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

namespace engram {
namespace {

constexpr std::int64_t kVersion = 1;

Result<std::int64_t> require_int(JsonElement object, std::string_view name) {
  const auto value = json_require(object, name);
  if (!value) return value.error();
  return json_int(*value, name);
}

Result<ShardManifest::Layer> parse_layer(JsonElement object) {
  const auto id = require_int(object, "layer");
  if (!id) return id.error();
  const auto rows = require_int(object, "rows");
  if (!rows) return rows.error();
  const auto held = json_require_array(object, "held");
  if (!held) return held.error();
  ShardManifest::Layer layer{*id, static_cast<std::uint64_t>(*rows), {}};
  std::uint64_t last = 0;
  for (const JsonElement range : *held) {
    const auto ends = json_ints(range, "held");
    if (!ends) return ends.error();
    if (ends->size() != 2 || (*ends)[0] < static_cast<std::int64_t>(last) ||
        (*ends)[1] <= (*ends)[0] || (*ends)[1] > *rows) {
      return make_error(Code::corrupt,
                        "layer {}: held: expected ascending ranges within 0..{}, found [{}]", *id,
                        *rows, fmt::join(*ends, ", "));
    }
    layer.held.push_back(
        {static_cast<std::uint64_t>((*ends)[0]), static_cast<std::uint64_t>((*ends)[1])});
    last = layer.held.back().end;
  }
  return layer;
}

Result<ShardManifest> parse(JsonElement root) {
  const auto version = require_int(root, "version");
  if (!version) return version.error();
  if (*version != kVersion) {
    return make_error(Code::unsupported, "version: expected {}, found {}", kVersion, *version);
  }
  ShardManifest manifest;
  for (const auto& [name, place] :
       {std::pair{"rank", &manifest.rank}, {"world", &manifest.world}}) {
    const auto value = require_int(root, name);
    if (!value) return value.error();
    *place = *value;
  }
  if (manifest.world < 1 || manifest.rank < 0 || manifest.rank >= manifest.world) {
    return make_error(Code::corrupt, "rank {} of {}", manifest.rank, manifest.world);
  }
  const auto by = json_require_string(root, "by");
  if (!by) return by.error();
  manifest.by = *by;
  const auto layers = json_require_array(root, "layers");
  if (!layers) return layers.error();
  for (const JsonElement object : *layers) {
    auto layer = parse_layer(object);
    if (!layer) return std::move(layer).error();
    manifest.layers.push_back(*std::move(layer));
  }
  return manifest;
}

}  // namespace

std::string shard_manifest_json(const ShardManifest& manifest) {
  std::string layers;
  for (const ShardManifest::Layer& layer : manifest.layers) {
    std::string held;
    for (const RowRange& range : layer.held) {
      held += fmt::format("{}[{}, {}]", held.empty() ? "" : ", ", range.begin, range.end);
    }
    layers += fmt::format("{}\n    {{\"layer\": {}, \"rows\": {}, \"held\": [{}]}}",
                          layers.empty() ? "" : ",", layer.layer_id, layer.row_count, held);
  }
  return fmt::format(
      "{{\n  \"version\": {},\n  \"rank\": {},\n  \"world\": {},\n  \"by\": \"{}\",\n"
      "  \"layers\": [{}\n  ]\n}}\n",
      kVersion, manifest.rank, manifest.world, manifest.by, layers);
}

Result<ShardManifest> parse_shard_manifest(std::string_view json, std::string_view where) {
  const auto document = JsonDocument::parse(json, where);
  if (!document) return document.error();
  auto manifest = parse(document->root());
  if (!manifest) return with_context(std::move(manifest).error(), where);
  return manifest;
}

}  // namespace engram
