// Reads config.json: fields in text_config or flat, both spellings of each.
#include <algorithm>
#include <array>

#include "engram/checkpoint.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

namespace engram {
namespace {

// Exactly these: a prefix test would take DeepSeek-V4, which has no Engram, for V4.1.
constexpr std::array<std::string_view, 2> kModelTypes = {"deepseek_v41", "deepseek_v41_text"};

// Looks a field up under all its spellings in text_config, then at the top.
class Fields {
 public:
  static Result<Fields> make(JsonElement root) {
    const auto top = json_object(root, "config");
    if (!top) return top.error();
    ENGRAM_TRY(json_reject_duplicates(*top, "config"));
    Fields fields;
    if (const auto text = json_find(root, "text_config")) {
      const auto object = json_object(*text, "text_config");
      if (!object) return object.error();
      ENGRAM_TRY(json_reject_duplicates(*object, "text_config"));
      fields.places_.push_back(*text);
    }
    fields.places_.push_back(root);
    return fields;
  }

  // Where several spellings or places give the field, they must agree.
  Result<std::optional<JsonElement>> find(std::initializer_list<std::string_view> names) const {
    std::optional<JsonElement> found;
    std::string_view found_name;
    for (const std::string_view name : names) {
      for (const JsonElement place : places_) {
        const auto value = json_find(place, name);
        if (!value) continue;
        if (found && simdjson::minify(*found) != simdjson::minify(*value)) {
          return make_error(Code::corrupt, "field '{}' is {} but '{}' is {}", found_name,
                            std::string(simdjson::minify(*found)), name,
                            std::string(simdjson::minify(*value)));
        }
        found = value;
        found_name = name;
      }
    }
    return found;
  }

  Result<JsonElement> require(std::initializer_list<std::string_view> names) const {
    const auto found = find(names);
    if (!found) return found.error();
    if (*found) return **found;
    return make_error(Code::corrupt, "field '{}' is missing", *names.begin());
  }

  Status read(std::initializer_list<std::string_view> names, std::int64_t& out) const {
    const auto field = require(names);
    if (!field) return field.error();
    const auto value = json_int(*field, *names.begin());
    if (!value) return value.error();
    out = *value;
    return {};
  }

 private:
  std::vector<JsonElement> places_;
};

Status check_model_type(JsonElement root) {
  const auto field = json_find(root, "model_type");
  if (!field) return {};  // the flat inference config has none
  const auto type = json_string(*field, "model_type");
  if (!type) return type.error();
  if (std::find(kModelTypes.begin(), kModelTypes.end(), *type) != kModelTypes.end()) return {};
  return make_error(Code::unsupported, "model_type: expected deepseek_v41, found '{}'", *type);
}

Status check_positive(const ModelConfig& config) {
  // Generous bounds (V4.1 is far below all of them) that keep later products inside 64 bits.
  struct Bound {
    std::string_view name;
    std::int64_t value;
    std::int64_t max;
  };
  const std::array bounds = {
      Bound{"engram_n_heads", config.heads, 256},
      Bound{"engram_max_ngram_size", config.max_ngram_size, kOrderLimit},
      Bound{"engram_head_dim", config.head_dim, 1 << 16},
      Bound{"engram_compressed_vocab_size", config.compressed_vocab_size, 1 << 30},
      Bound{"vocab_size", config.vocab_size, 1 << 30},
      Bound{"hidden_size", config.hidden_dim, 1 << 20},
      Bound{"hc_mult", config.copies, 256},
  };
  for (const Bound& bound : bounds) {
    if (bound.value >= 1 && bound.value <= bound.max) continue;
    return make_error(Code::corrupt, "field '{}': expected 1..{}, found {}", bound.name, bound.max,
                      bound.value);
  }
  if (config.pad_token_id < 0 || config.pad_token_id >= config.vocab_size) {
    return make_error(Code::corrupt, "field 'engram_pad_token_id': expected a token id, found {}",
                      config.pad_token_id);
  }
  if (!(config.norm_eps >= 0 && config.norm_eps < 1)) {
    return make_error(Code::corrupt, "field 'rms_norm_eps': expected 0..1, found {}",
                      config.norm_eps);
  }
  return {};
}

Status read_layers(const Fields& fields, ModelConfig& config) {
  const auto layers = fields.find({"engram_layer_ids"});
  if (!layers) return layers.error();
  if (*layers) {
    auto ids = json_ints(**layers, "engram_layer_ids");
    if (!ids) return std::move(ids).error();
    config.layer_ids = *std::move(ids);
  }
  if (config.layer_ids.empty()) {
    return make_error(Code::not_found,
                      "this model has no Engram: 'engram_layer_ids' is absent or empty");
  }
  const auto rows = fields.find({"engram_num_embeddings"});
  if (!rows) return rows.error();
  if (!*rows) return {};
  auto counts = json_ints(**rows, "engram_num_embeddings");
  if (!counts) return std::move(counts).error();
  if (counts->size() != config.layer_ids.size()) {
    return make_error(Code::corrupt, "field 'engram_num_embeddings': expected {} counts, found {}",
                      config.layer_ids.size(), counts->size());
  }
  config.num_embeddings = *std::move(counts);
  return {};
}

// The codec that an exporter declares: NVIDIA writes engram_embed_quant, LibertAI engram_dtype.
Status read_declared_codec(const Fields& fields, ModelConfig& config) {
  const auto quantization = fields.find({"quantization_config"});
  if (!quantization) return quantization.error();
  if (!*quantization) return {};
  for (const std::string_view name : {"engram_embed_quant", "engram_dtype"}) {
    const auto field = json_find(**quantization, name);
    if (!field) continue;
    const auto codec = json_string(*field, name);
    if (!codec) return codec.error();
    config.declared_codec = *codec;
  }
  return {};
}

// Ascend's quarot export: exactly this contract, or none. Source: vllm-ascend's loader.
Status read_rotation_config(const Fields& fields, ModelConfig& config) {
  const auto field = fields.find({"engram_rotation_config"});
  if (!field) return field.error();
  if (!*field) return {};
  const std::string found(simdjson::minify(**field));
  const auto object = json_object(**field, "engram_rotation_config");
  if (!object) return object.error();
  const auto is_text = [&](std::string_view name, std::string_view expected) {
    const auto value = json_require_string(**field, name);
    return value && *value == expected;
  };
  const auto rotated = json_flag(**field, "value_projection_rotated", false);
  const auto delta = json_flag(**field, "runtime_delta_rotation", true);
  if (object->size() == 4 && rotated && *rotated && delta && !*delta &&
      is_text("value_basis", "quarot_global") && is_text("key_and_gate_basis", "original")) {
    config.value_rotated = true;
    return {};
  }
  return make_error(Code::unsupported,
                    "field 'engram_rotation_config': expected value_projection_rotated true, "
                    "value_basis quarot_global, key_and_gate_basis original and "
                    "runtime_delta_rotation false, found {}",
                    found);
}

Status read_fields(const Fields& fields, ModelConfig& config) {
  ENGRAM_TRY(read_layers(fields, config));
  ENGRAM_TRY(fields.read({"engram_max_ngram_size"}, config.max_ngram_size));
  ENGRAM_TRY(fields.read({"engram_n_heads"}, config.heads));
  ENGRAM_TRY(fields.read({"engram_head_dim"}, config.head_dim));
  ENGRAM_TRY(fields.read({"engram_vocab_size"}, config.engram_vocab_size));
  ENGRAM_TRY(fields.read({"engram_compressed_vocab_size"}, config.compressed_vocab_size));
  ENGRAM_TRY(fields.read({"engram_pad_token_id", "engram_pad_id"}, config.pad_token_id));
  ENGRAM_TRY(fields.read({"vocab_size"}, config.vocab_size));
  ENGRAM_TRY(fields.read({"hidden_size", "dim"}, config.hidden_dim));
  ENGRAM_TRY(fields.read({"hc_mult"}, config.copies));
  // Not defaulted: the usual 1e-6 would be silently wrong where the release says 1e-20.
  const auto eps_field = fields.require({"rms_norm_eps", "norm_eps"});
  if (!eps_field) return eps_field.error();
  const auto eps = json_number(*eps_field, "rms_norm_eps");
  if (!eps) return eps.error();
  config.norm_eps = *eps;
  ENGRAM_TRY(read_declared_codec(fields, config));
  ENGRAM_TRY(read_rotation_config(fields, config));
  const auto digest_field = fields.find({"engram_token_map_sha256"});
  if (!digest_field) return digest_field.error();
  if (!*digest_field) return {};
  const auto digest = json_string(**digest_field, "engram_token_map_sha256");
  if (!digest) return digest.error();
  config.token_map_sha256 = *digest;
  return {};
}

}  // namespace

Result<ModelConfig> ModelConfig::from_json(std::string_view json, std::string_view where) {
  const auto document = JsonDocument::parse(json, where);
  if (!document) return document.error();
  const auto fields = Fields::make(document->root());
  if (!fields) return with_context(fields.error(), where);
  ModelConfig config;
  Status status = check_model_type(document->root());
  if (status) status = read_fields(*fields, config);
  if (status) status = check_positive(config);
  if (!status) return with_context(std::move(status).error(), where);
  return config;
}

HashConfig ModelConfig::hash_config(CompressedId compressed_pad) const {
  HashConfig hash;
  hash.layer_ids = layer_ids;
  hash.max_order = static_cast<int>(max_ngram_size);
  hash.heads = static_cast<int>(heads);
  hash.first_prime_at_least = engram_vocab_size;
  hash.compressed_size = compressed_vocab_size;
  hash.pad = compressed_pad;
  return hash;
}

}  // namespace engram
