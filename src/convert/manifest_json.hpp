// engram-manifest.json: what a directory's files are, byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engram/status.hpp"

namespace engram {

inline constexpr std::string_view kManifestName = "engram-manifest.json";

struct Manifest {
  struct File {
    std::string path;  // inside the directory
    std::uint64_t bytes = 0;
    std::string sha256;
  };
  std::string source;  // fingerprint of what the files were made from, or empty
  std::string config;  // effective configuration: the text of config.json, or empty
  std::vector<File> files;
};

// Modelled on the manifest of the Ascend export: files with their digests, effective configuration,
// source, and the tool that wrote it.
std::string manifest_json(const Manifest& manifest);

// Files of such a manifest, or of another tool's: "files" as a list of objects with "path" (or
// "name") and "sha256", or as an object of name to digest. Sizes may be missing: then 0.
Result<std::vector<Manifest::File>> parse_manifest(std::string_view json, std::string_view where);

}  // namespace engram
