// Weights by rule, and the model directory that libengram opens.
#include "weights.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>

namespace host {
namespace {

constexpr std::size_t kEngramRows[] = {462, 630};
constexpr std::size_t kEngramColumns = 6;
constexpr std::size_t kEngramHeadDim = 32;

bool ends_with(const std::string& name, const std::string& end) { return name.ends_with(end); }

bool has(const std::vector<std::size_t>& layers, std::size_t layer) {
  return std::find(layers.begin(), layers.end(), layer) != layers.end();
}

// How values are spread, and what they are stored as.
struct Rule {
  enum class Kind { bf16, f32, e4m3, e8m0 };
  double scale;
  double offset;
  Kind kind;
};

// The compressors of ratio 2 pool in float; those of ratio 1 are ordinary matrices.
bool pools(const std::string& name) {
  const bool compressor =
      ends_with(name, "compressor.wkv.weight") || ends_with(name, "compressor.wgate.weight");
  return compressor && name.starts_with("layers.2.");
}

Rule rule_of(const std::string& name, const std::vector<std::size_t>& shape) {
  using Kind = Rule::Kind;
  if (ends_with(name, ".engram.embed.scale")) return {1, 1, Kind::e8m0};
  if (ends_with(name, ".engram.embed.weight")) return {0.5, 0, Kind::e4m3};
  if (name == "embed.weight") return {0.5, 0, Kind::bf16};
  if (ends_with(name, ".attn_sink")) return {0.1, 0, Kind::f32};
  if (ends_with(name, "_scale")) return {0.05, 1, Kind::f32};
  if (ends_with(name, "_base")) return {0.1, 0, Kind::f32};
  if (ends_with(name, ".engram.q_weight") || ends_with(name, ".engram.k_weight")) {
    return {0.05, 1, Kind::bf16};
  }
  if (ends_with(name, ".gate.bias") || ends_with(name, ".gate.bias_vl"))
    return {0.05, 0, Kind::f32};
  if (ends_with(name, "norm.weight")) return {0.05, 1, Kind::bf16};
  const bool wide = ends_with(name, "_fn") || name == "head.weight" || pools(name);
  return {1 / std::sqrt(static_cast<double>(shape.back())), 0, wide ? Kind::f32 : Kind::bf16};
}

// The nearest power of two of a positive number below 2; half way goes up.
float nearest_power_of_two(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(((bits >> 23) + (bits >> 22 & 1)) << 23);
}

Matrix matrix(const std::string& name, std::size_t rows, std::size_t columns) {
  Matrix result;
  result.append(tensor_values(name, {rows, columns}), columns);
  return result;
}

Vector vector(const std::string& name, std::size_t count) { return tensor_values(name, {count}); }

Expert expert(const std::string& prefix, const Shape& s) {
  return {matrix(prefix + ".w1.weight", s.moe_inter_dim, s.dim),
          matrix(prefix + ".w2.weight", s.dim, s.moe_inter_dim),
          matrix(prefix + ".w3.weight", s.moe_inter_dim, s.dim)};
}

void make_mixes(const std::string& p, const Shape& s, LayerWeights& w) {
  const std::size_t mixes = (2 + s.hc_mult) * s.hc_mult;
  w.hc_attn_fn = matrix(p + "hc_attn_fn", mixes, s.hc_mult * s.dim);
  w.hc_ffn_fn = matrix(p + "hc_ffn_fn", mixes, s.hc_mult * s.dim);
  w.hc_attn_base = vector(p + "hc_attn_base", mixes);
  w.hc_ffn_base = vector(p + "hc_ffn_base", mixes);
  w.hc_attn_scale = vector(p + "hc_attn_scale", 3);
  w.hc_ffn_scale = vector(p + "hc_ffn_scale", 3);
  w.attn_norm = vector(p + "attn_norm.weight", s.dim);
  w.ffn_norm = vector(p + "ffn_norm.weight", s.dim);
}

void make_attention(const std::string& p, std::size_t layer, const Shape& s, LayerWeights& w) {
  const std::size_t heads_dim = s.n_heads * s.head_dim;
  w.attn_sink = vector(p + "attn_sink", s.n_heads);
  w.wq_a = matrix(p + "wq_a.weight", s.q_lora_rank, s.dim);
  w.q_norm = vector(p + "q_norm.weight", s.q_lora_rank);
  w.wq_b = matrix(p + "wq_b.weight", heads_dim, s.q_lora_rank);
  w.wkv = matrix(p + "wkv.weight", s.head_dim, s.dim);
  w.kv_norm = vector(p + "kv_norm.weight", s.head_dim);
  w.wo_a = matrix(p + "wo_a.weight", s.o_groups * s.o_lora_rank, heads_dim / s.o_groups);
  w.wo_b = matrix(p + "wo_b.weight", s.dim, s.o_groups * s.o_lora_rank);
  const bool source = has(s.kv_source_layers, layer);
  if (source) {
    w.compressor_wkv = matrix(p + "compressor.wkv.weight", s.head_dim, s.dim);
    w.compressor_norm = vector(p + "compressor.norm.weight", s.head_dim);
    if (s.compress_ratios[layer] > 1) {
      w.compressor_wgate = matrix(p + "compressor.wgate.weight", s.head_dim, s.dim);
    }
  }
  if (!has(s.index_source_layers, layer)) return;
  w.indexer_wq_b =
      matrix(p + "indexer.wq_b.weight", s.index_n_heads * s.index_head_dim, s.q_lora_rank);
  w.indexer_weights_proj = matrix(p + "indexer.weights_proj.weight", s.index_n_heads, s.dim);
  if (source) {
    w.indexer_wk = matrix(p + "indexer.wk.weight", s.index_head_dim, s.head_dim);
    w.indexer_k_norm = vector(p + "indexer.k_norm.weight", s.index_head_dim);
  }
}

void make_experts(const std::string& p, const Shape& s, LayerWeights& w) {
  w.gate = matrix(p + "gate.weight", s.n_routed_experts, s.dim);
  w.gate_bias = vector(p + "gate.bias", s.n_routed_experts);
  w.gate_bias_vl = vector(p + "gate.bias_vl", s.n_routed_experts);
  for (std::size_t i = 0; i < s.n_routed_experts; ++i) {
    w.experts.push_back(expert(p + "experts." + std::to_string(i), s));
  }
  w.shared = expert(p + "shared_experts", s);
}

// A safetensors file in the making: the header's entries, and the bytes behind it.
class Tensors {
 public:
  void add(const std::string& name, const char* dtype, const std::vector<std::size_t>& shape,
           const std::string& bytes) {
    std::string dims;
    for (const std::size_t dim : shape) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    header_ += (header_.empty() ? "\"" : ",\"") + name + "\":{\"dtype\":\"" + dtype +
               "\",\"shape\":[" + dims + "],\"data_offsets\":[" + std::to_string(bytes_.size()) +
               "," + std::to_string(bytes_.size() + bytes.size()) + "]}";
    bytes_ += bytes;
  }

  std::string file() const {
    const std::string header = "{" + header_ + "}";
    std::string result(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) {
      result[i] = static_cast<char>(std::uint64_t{header.size()} >> 8 * i);
    }
    return result + header + bytes_;
  }

 private:
  std::string header_;
  std::string bytes_;
};

std::string bfloat16_bytes(const Vector& values) {
  std::string bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    bytes += static_cast<char>(bits >> 16);
    bytes += static_cast<char>(bits >> 24);
  }
  return bytes;
}

// E4M3 codes of values that are E4M3 numbers: sign, four bits of exponent (bias 7), three of
// fraction.
std::string e4m3_bytes(const Vector& values) {
  std::string bytes;
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    const int exponent = magnitude == 0 ? -6 : std::max(std::ilogb(magnitude), -6);
    // In steps of the exponent's own size: below 8 for numbers without a leading one.
    const int steps = static_cast<int>(std::ldexp(magnitude, 3 - exponent));
    const int code = steps < 8 ? steps : (exponent + 7) * 8 + steps - 8;
    bytes += static_cast<char>(code | (std::signbit(value) ? 0x80 : 0));
  }
  return bytes;
}

std::string e8m0_bytes(const Vector& values) {
  std::string bytes;
  for (const float value : values) bytes += static_cast<char>(std::ilogb(value) + 127);
  return bytes;
}

engram::Status write(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (file.good()) return {};
  return engram::Error{engram::Code::io, 0, path + ": cannot write"};
}

}  // namespace

std::uint64_t raw_number(const std::string& name, std::uint64_t index) {
  std::uint64_t salt = 0xCBF29CE484222325;
  for (const char c : name) salt = (salt ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  std::uint64_t z = (salt ^ index * 0x9E3779B97F4A7C15) + 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

Vector tensor_values(const std::string& name, const std::vector<std::size_t>& shape) {
  const Rule rule = rule_of(name, shape);
  Vector values(std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double u = static_cast<double>(raw_number(name, i) >> 40) / (1 << 24);
    const auto value = static_cast<float>((2 * u - 1) * rule.scale + rule.offset);
    values[i] = rule.kind == Rule::Kind::bf16   ? bfloat16(value)
                : rule.kind == Rule::Kind::e4m3 ? e4m3(value)
                : rule.kind == Rule::Kind::e8m0 ? nearest_power_of_two(value)
                                                : value;
  }
  return values;
}

Weights make_weights(const Shape& shape) {
  Weights weights;
  weights.embed = matrix("embed.weight", shape.vocab_size, shape.dim);
  weights.head = matrix("head.weight", shape.vocab_size, shape.dim);
  weights.norm = vector("norm.weight", shape.dim);
  for (std::size_t layer = 0; layer < shape.n_layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    LayerWeights w;
    make_mixes(prefix, shape, w);
    make_attention(prefix + "attn.", layer, shape, w);
    make_experts(prefix + "ffn.", shape, w);
    weights.layers.push_back(std::move(w));
  }
  return weights;
}

engram::Status write_engram_model(const Shape& shape, const std::string& directory) {
  const std::size_t inputs = kEngramColumns * kEngramHeadDim;
  Tensors tensors;
  for (std::size_t i = 0; i < shape.engram_layer_ids.size(); ++i) {
    const std::string p = "layers." + std::to_string(shape.engram_layer_ids[i]) + ".engram.";
    const auto add = [&](const char* name, const char* dtype, std::vector<std::size_t> dims,
                         std::string (*bytes)(const Vector&)) {
      tensors.add(p + name, dtype, dims, bytes(tensor_values(p + name, dims)));
    };
    add("embed.weight", "F8_E4M3", {kEngramRows[i], kEngramHeadDim}, e4m3_bytes);
    add("embed.scale", "F8_E8M0", {kEngramRows[i], 1}, e8m0_bytes);
    add("wkv.weight", "BF16", {(shape.hc_mult + 1) * shape.dim, inputs}, bfloat16_bytes);
    add("q_weight", "BF16", {shape.hc_mult, shape.dim}, bfloat16_bytes);
    add("k_weight", "BF16", {shape.hc_mult, shape.dim}, bfloat16_bytes);
  }
  if (auto status = write(directory + "/model.safetensors", tensors.file()); !status) return status;
  std::string identity;
  for (std::size_t id = 0; id < shape.vocab_size; ++id) {
    identity += {static_cast<char>(id), '\0', '\0', '\0'};
  }
  if (auto status = write(directory + "/engram_token_map.i32", identity); !status) return status;
  return write(directory + "/config.json", R"({"model_type": "deepseek_v41", "text_config": {
  "vocab_size": 64, "hidden_size": 64, "hc_mult": 4, "rms_norm_eps": 1e-20,
  "engram_layer_ids": [1, 4], "engram_num_embeddings": [462, 630], "engram_max_ngram_size": 4,
  "engram_vocab_size": 64, "engram_n_heads": 2, "engram_head_dim": 32, "engram_pad_token_id": 2,
  "engram_compressed_vocab_size": 64}}
)");
}

}  // namespace host
