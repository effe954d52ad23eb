// The files beside the tensors: config.json, the tokenizer or the map, the index.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/token_map_file.hpp"
#include "convert/config_writer.hpp"
#include "convert/model_plan.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 28;
constexpr std::string_view kQuantization = "quantization_config";

// Declarations of how tables were stored before, which would contradict what is written now.
constexpr std::array<std::string_view, 8> kStale = {
    "engram_embed_quant", "engram_embed_block_size", "engram_embed_layers", "engram_dtype",
    "engram_block_size",  "engram_scale_fmt",        "engram_bits",         "engram_embed_storage"};

// quantization_config without stale declarations, with new ones.
std::string edit_quantization(JsonObject object, const Members& added) {
  Members members = added;
  for (const std::string_view name : kStale) {
    const bool replaced = std::any_of(members.begin(), members.end(),
                                      [&](const auto& member) { return member.first == name; });
    if (!replaced) members.emplace_back(name, "");
  }
  return json_with_members(object, members);
}

// An object of config.json with its own quantization_config edited, where it has one.
Result<std::string> edit_level(JsonElement level, Members members, const Members& quantization) {
  const auto object = json_object(level, "config");
  if (!object) return object.error();
  if (const auto own = json_find(level, kQuantization)) {
    const auto inner = json_object(*own, kQuantization);
    if (!inner) return inner.error();
    members.emplace_back(kQuantization, edit_quantization(*inner, quantization));
  }
  return json_with_members(*object, members);
}

Result<std::string> edit_config(std::string_view json, std::string_view where,
                                const Members& declarations) {
  const auto document = JsonDocument::parse(json, where);
  if (!document) return document.error();
  Members members = {{"omlx_deepseek_v41", ""}};
  Members quantization;
  const std::string dotted = std::string(kQuantization) + ".";
  for (const auto& [name, value] : declarations) {
    if (name.starts_with(dotted)) {
      quantization.emplace_back(name.substr(dotted.size()), value);
    } else {
      std::erase_if(members, [&](const auto& member) { return member.first == name; });
      members.emplace_back(name, value);
    }
  }
  const auto text = json_find(document->root(), "text_config");
  const bool inside = text && json_find(*text, kQuantization);
  if (inside) {
    auto edited = edit_level(*text, {}, quantization);
    if (!edited) return edited;
    members.emplace_back("text_config", *std::move(edited));
  }
  const bool anywhere = inside || json_find(document->root(), kQuantization);
  if (!anywhere && !quantization.empty()) {
    std::string fields;
    for (const auto& [name, value] : quantization) {
      fields += fmt::format("{}{}:{}", fields.empty() ? "" : ",", json_text(name), value);
    }
    members.emplace_back(kQuantization, "{" + fields + "}");
  }
  return edit_level(document->root(), std::move(members), quantization);
}

std::string index_json(const ModelPlan& plan) {
  std::uint64_t total = 0;
  std::string map;
  for (const OutputFile& file : plan.files) {
    for (const TensorPlan& tensor : file.tensors) {
      total += tensor.size_bytes;
      map += fmt::format("{}\n    {}: {}", map.empty() ? "" : ",", json_text(tensor.name),
                         json_text(file.name));
    }
  }
  return fmt::format(
      "{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n  }}\n}}\n", total,
      map);
}

}  // namespace

std::uint64_t ModelPlan::total_bytes() const {
  std::uint64_t total = 0;
  for (const OutputFile& file : files) total += file.file_bytes;
  for (const auto& [name, text] : texts) total += text.size();
  return total;
}

RowLayout PlanInput::layout_of(const TableSource& table) const {
  if (target.keep || target.format == table.layout.format) return table.layout;
  return RowLayout{target.format, table.layout.head_dim};
}

bool PlanInput::takes(const TableSource& table) const {
  return options.layers.empty() || std::find(options.layers.begin(), options.layers.end(),
                                             table.layer_id) != options.layers.end();
}

Status add_companions(const PlanInput& input, std::string_view index_name,
                      const Members& declarations, ModelPlan& plan) {
  const std::string path = input.source.directory() + "/config.json";
  std::string config = model_config_json(input.source.config());
  if (os::path_exists(path)) {
    auto text = os::read_text_file(path, kTextBytesMax);
    if (!text) return std::move(text).error();
    config = *std::move(text);
  }
  auto edited = edit_config(config, path, declarations);
  if (!edited) return std::move(edited).error();
  plan.texts.emplace_back("config.json", *std::move(edited) + "\n");
  if (!input.source.tokenizer_path().empty()) {
    auto text = os::read_text_file(input.source.tokenizer_path(), kTextBytesMax);
    if (!text) return std::move(text).error();
    plan.texts.emplace_back("tokenizer.json", *std::move(text));
  } else if (!input.token_map.empty()) {
    const auto bytes = std::as_bytes(std::span(input.token_map));
    plan.texts.emplace_back(kTokenMapFileName,
                            std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  if (input.options.layers.empty()) plan.texts.emplace_back(index_name, index_json(plan));
  return {};
}

}  // namespace engram
