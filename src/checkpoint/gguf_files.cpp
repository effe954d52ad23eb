// Which files make up a GGUF model: one, a split set, or raw parts of one.
#include "checkpoint/gguf_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <regex>

#include "base/error.hpp"

namespace engram {
namespace {

namespace fs = std::filesystem;

// A file name read as a member of a model.
struct Member {
  std::string model;          // what all members of one model share
  bool is_split = false;      // a file of a split set, with a header of its own
  std::uint64_t split_count;  // files that the set's names promise
};

// Nothing for names that are no part of a GGUF model.
std::optional<Member> parse_name(const std::string& name) {
  static const std::regex split(R"(^(.*)-(\d{5})-of-(\d{5})\.gguf$)");
  static const std::regex part(
      R"(^(.*\.gguf)[.\-_]?(?:part|split)?[.\-_]?(?:\d+|[a-z]{1,3})(?:of\d+)?$)");
  std::smatch match;
  if (std::regex_match(name, match, split)) {
    return Member{match[1], true, std::stoull(match[3])};
  }
  if (name.ends_with(".gguf")) return Member{name, false, 1};
  if (std::regex_match(name, match, part)) return Member{match[1], false, 1};
  return std::nullopt;
}

struct Model {
  bool is_split = false;
  std::uint64_t split_count = 1;
  std::vector<std::string> files;  // in order
};

// Parts in the order of their numbers: part2 before part10.
void sort_files(std::vector<std::string>& files) {
  std::sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
}

std::map<std::string, Model> models_in(const std::vector<std::string>& names) {
  std::map<std::string, Model> models;
  for (const std::string& name : names) {
    const auto member = parse_name(name);
    if (!member) continue;
    Model& model = models[member->model];
    model.is_split = member->is_split;
    model.split_count = member->split_count;
    model.files.push_back(name);
  }
  for (auto& [name, model] : models) sort_files(model.files);
  return models;
}

// The one model a path means, its files with their directory in front.
Result<Model> find_model(const std::string& path) {
  const bool is_directory = os::is_directory(path);
  const fs::path directory = is_directory ? fs::path(path) : fs::path(path).parent_path();
  const auto names = os::list_files(directory.empty() ? "." : directory.string());
  if (!names) return names.error();
  auto models = models_in(*names);
  std::string wanted;
  if (is_directory) {
    std::string list;
    for (const auto& [name, model] : models) list += (list.empty() ? "" : ", ") + model.files[0];
    if (models.size() != 1) {
      return make_error(Code::invalid_argument,
                        "{}: holds {} GGUF models; name the file of one: {}", path, models.size(),
                        list);
    }
    wanted = models.begin()->first;
  } else {
    const auto member = parse_name(fs::path(path).filename().string());
    if (!member) return make_error(Code::invalid_argument, "{}: not a GGUF file name", path);
    wanted = member->model;
  }
  const auto found = models.find(wanted);
  if (found == models.end()) return make_error(Code::not_found, "{}: no such file", path);
  Model model = std::move(found->second);
  if (model.is_split && model.files.size() != model.split_count) {
    return make_error(Code::not_found, "{}: expected {} files '{}-...', found {}", path,
                      model.split_count, wanted, model.files.size());
  }
  for (std::string& file : model.files) file = (directory / file).string();
  return model;
}

std::int64_t integer(const GgufHeader& header, std::string_view key, std::int64_t otherwise) {
  const auto found = header.metadata.find(key);
  const auto* value =
      found == header.metadata.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value == nullptr ? otherwise : *value;
}

Result<GgufHeader> read_parts(const std::vector<std::string>& files) {
  const auto file = os::open_files(files);
  if (!file) return file.error();
  auto header = read_gguf(**file);
  if (!header || files.size() == 1) return header;
  for (TensorExtent& tensor : header->tensors) tensor.parts = files;
  return header;
}

Result<GgufHeader> read_split(const Model& model) {
  GgufHeader all;
  std::size_t tensor_count = 0;
  for (std::size_t i = 0; i < model.files.size(); ++i) {
    auto header = read_parts({model.files[i]});
    if (!header) return header;
    const std::int64_t number = integer(*header, "split.no", -1);
    const std::int64_t count = integer(*header, "split.count", -1);
    if (number != static_cast<std::int64_t>(i) ||
        count != static_cast<std::int64_t>(model.split_count)) {
      return make_error(Code::corrupt, "{}: expected split {} of {}, the file says {} of {}",
                        model.files[i], i, model.split_count, number, count);
    }
    tensor_count += header->tensors.size();
    if (i == 0) {
      all = *std::move(header);
      continue;
    }
    for (TensorExtent& tensor : header->tensors) all.tensors.push_back(std::move(tensor));
  }
  const std::int64_t promised =
      integer(all, "split.tensors.count", static_cast<std::int64_t>(tensor_count));
  if (promised == static_cast<std::int64_t>(tensor_count)) return all;
  return make_error(Code::corrupt, "{}: split.tensors.count says {} tensors, the files have {}",
                    model.files[0], promised, tensor_count);
}

}  // namespace

bool is_gguf_model(const std::string& path) {
  if (!os::is_directory(path)) {
    return parse_name(fs::path(path).filename().string()).has_value() && os::path_exists(path);
  }
  const auto names = os::list_files(path);
  if (!names) return false;
  const bool safetensors = std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
  });
  return !safetensors && !models_in(*names).empty();
}

Result<GgufHeader> read_gguf_files(const std::string& path) {
  const auto model = find_model(path);
  if (!model) return model.error();
  return model->is_split ? read_split(*model) : read_parts(model->files);
}

}  // namespace engram
