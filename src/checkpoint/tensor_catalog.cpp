// Finds tensors by name in a model directory, through its index or its files' own headers.
#include "checkpoint/tensor_catalog.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/safetensors.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
// The release's index is 7 MB for 96,085 tensors.
constexpr std::uint64_t kIndexBytesMax = std::uint64_t{1} << 30;

// A shard lies inside the model directory: relative, and never through "..".
bool stays_inside(std::string_view name) {
  const std::filesystem::path path(name);
  return !name.empty() && name.find('\0') == std::string_view::npos && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

// The path of the directory's index, or nothing where there is none. A release calls it model,
// Ascend's export quant_model_weights.
Result<std::string> find_index(const std::string& directory,
                               const std::vector<std::string>& files) {
  std::vector<std::string> found;
  for (const std::string& file : files) {
    if (file.ends_with(kIndexSuffix)) found.push_back(file);
  }
  if (found.empty()) return std::string();
  if (found.size() == 1) return directory + "/" + found.front();
  return make_error(Code::corrupt, "{}: more than one index: {}", directory,
                    fmt::join(found, ", "));
}

}  // namespace

Result<TensorCatalog> TensorCatalog::open(const std::string& directory) {
  TensorCatalog catalog;
  catalog.directory_ = directory;
  auto files = os::list_files(directory);
  if (!files) return std::move(files).error();
  const auto index = find_index(directory, *files);
  if (!index) return index.error();
  if (!index->empty()) {
    const auto text = os::read_text_file(*index, kIndexBytesMax);
    if (!text) return text.error();
    ENGRAM_TRY(catalog.read_index(*text, *index));
    return catalog;
  }
  if (os::path_exists(directory + "/" + std::string(kSingleName))) {
    ENGRAM_TRY(catalog.scan({std::string(kSingleName)}));
    return catalog;
  }
  std::erase_if(*files, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  if (files->empty()) {
    return make_error(Code::not_found, "{}: no *{}, no {} and no other *.safetensors", directory,
                      kIndexSuffix, kSingleName);
  }
  ENGRAM_TRY(catalog.scan(*files));
  return catalog;
}

// metadata.total_size is ignored: several published indexes get it wrong.
Status TensorCatalog::read_index(const std::string& text, const std::string& where) {
  const auto document = JsonDocument::parse(text, where);
  if (!document) return document.error();
  const auto map = json_require_object(document->root(), "weight_map");
  if (!map) return with_context(map.error(), where);
  for (const auto entry : *map) {
    const auto file = json_string(entry.value, entry.key);
    if (!file) return with_context(file.error(), where);
    if (!stays_inside(*file)) {
      return make_error(Code::corrupt, "{}: '{}' points outside the model directory: '{}'", where,
                        entry.key, *file);
    }
    const auto [known, fresh] = files_.emplace(entry.key, *file);
    if (!fresh) {
      return make_error(Code::corrupt, "{}: tensor '{}' appears twice ('{}' and '{}')", where,
                        entry.key, known->second, *file);
    }
  }
  return {};
}

Status TensorCatalog::scan(const std::vector<std::string>& files) {
  for (const std::string& file : files) ENGRAM_TRY(load_file(file));
  for (const auto& [name, tensor] : tensors_) {
    files_[name] = std::filesystem::path(tensor.path).filename().string();
  }
  return {};
}

Status TensorCatalog::load_file(const std::string& name) {
  if (!loaded_.insert(name).second) return {};
  const auto file = os::open_file(directory_ + "/" + name);
  if (!file) return file.error();
  auto header = read_safetensors(**file);
  if (!header) return std::move(header).error();
  metadata_[(*file)->path()] = std::move(header->metadata);
  for (TensorExtent& tensor : header->tensors) {
    const auto promised = files_.find(tensor.name);
    if (promised != files_.end() && promised->second != name) continue;  // a stale copy
    const auto [known, fresh] = tensors_.emplace(tensor.name, tensor);
    if (!fresh) {
      return make_error(Code::corrupt, "tensor '{}' is in two files: {} and {}", tensor.name,
                        known->second.path, tensor.path);
    }
  }
  return {};
}

const std::map<std::string, std::string>& TensorCatalog::metadata(
    const TensorExtent& tensor) const {
  return metadata_.at(tensor.path);
}

std::vector<std::string> TensorCatalog::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

Result<TensorExtent> TensorCatalog::find(std::string_view name) {
  const auto file = files_.find(name);
  if (file == files_.end()) {
    return make_error(Code::not_found, "{}: no tensor '{}'", directory_, name);
  }
  ENGRAM_TRY(load_file(file->second));
  const auto tensor = tensors_.find(name);
  if (tensor == tensors_.end()) {
    return make_error(Code::corrupt, "{}: the index says it holds '{}', but it does not",
                      directory_ + "/" + file->second, name);
  }
  return tensor->second;
}

}  // namespace engram
