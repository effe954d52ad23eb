// engram-shard.json: which rows of each table a rank's directory holds.
#pragma once

#include <string>
#include <string_view>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

namespace engram {

inline constexpr std::string_view kShardManifestName = "engram-shard.json";

std::string shard_manifest_json(const ShardManifest& manifest);
// Code::unsupported for another version; Code::corrupt where ranges are not ascending, disjoint and
// inside the table.
Result<ShardManifest> parse_shard_manifest(std::string_view json, std::string_view where);

}  // namespace engram
