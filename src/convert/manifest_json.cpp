// engram-manifest.json: what a directory's files are, byte for byte.
#include "convert/manifest_json.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

namespace engram {
namespace {

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<Manifest::File> parse_file(JsonElement object) {
  Manifest::File file;
  auto path = json_find(object, "path");
  if (!path) path = json_find(object, "name");
  if (!path) return make_error(Code::corrupt, "a file without 'path'");
  const auto name = json_string(*path, "path");
  if (!name) return name.error();
  file.path = *name;
  const auto digest = json_require_string(object, "sha256");
  if (!digest) return with_context(digest.error(), file.path);
  file.sha256 = *digest;
  if (const auto bytes = json_find(object, "bytes")) {
    const auto count = json_int(*bytes, "bytes");
    if (!count) return with_context(count.error(), file.path);
    file.bytes = static_cast<std::uint64_t>(*count);
  }
  return file;
}

Result<std::vector<Manifest::File>> parse_files(JsonElement files) {
  std::vector<Manifest::File> result;
  if (const auto object = json_object(files, "files")) {
    for (const auto field : *object) {
      const auto digest = json_string(field.value, field.key);
      if (!digest) return digest.error();
      result.push_back({std::string(field.key), 0, std::string(*digest)});
    }
    return result;
  }
  const auto list = json_array(files, "files");
  if (!list) return list.error();
  for (const JsonElement item : *list) {
    auto file = parse_file(item);
    if (!file) return std::move(file).error();
    result.push_back(*std::move(file));
  }
  return result;
}

}  // namespace

std::string manifest_json(const Manifest& manifest) {
  std::string files;
  for (const Manifest::File& file : manifest.files) {
    files += fmt::format("{}\n    {{\"path\": {}, \"bytes\": {}, \"sha256\": \"{}\"}}",
                         files.empty() ? "" : ",", json_text(file.path), file.bytes, file.sha256);
  }
  std::string config = manifest.config.empty() ? "null" : manifest.config;
  while (!config.empty() && config.back() == '\n') config.pop_back();
  return fmt::format(
      "{{\n  \"format\": \"engram-manifest\",\n  \"version\": 1,\n  \"tool\": \"engram {}\",\n"
      "  \"source\": {},\n  \"effective_config\": {},\n  \"files\": [{}\n  ]\n}}\n",
      ENGRAM_VERSION, json_text(manifest.source), config, files);
}

Result<std::vector<Manifest::File>> parse_manifest(std::string_view json, std::string_view where) {
  const auto document = JsonDocument::parse(json, where);
  if (!document) return document.error();
  const auto files = json_require(document->root(), "files");
  if (!files) return with_context(files.error(), where);
  auto parsed = parse_files(*files);
  if (!parsed) return with_context(std::move(parsed).error(), where);
  for (const Manifest::File& file : *parsed) {
    if (is_sha256(file.sha256)) continue;
    return make_error(Code::corrupt, "{}: '{}': expected 64 hexadecimal digits, found '{}'", where,
                      file.path, file.sha256);
  }
  return parsed;
}

}  // namespace engram
