// The weights of a small DeepSeek-V4.1 decoder, every one made by a rule from its name; and the
// model directory with its Engram tables, which libengram opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engram/status.hpp"

#include "numbers.hpp"

namespace host {

// Names and meanings are those of the reference's ModelArgs; the values are a toy's, six layers of
// every kind that the release has.
struct Shape {
  std::size_t vocab_size = 64;
  std::size_t dim = 64;
  std::size_t n_layers = 6;
  std::size_t n_heads = 4;
  std::size_t head_dim = 32;
  std::size_t rope_head_dim = 8;
  std::size_t q_lora_rank = 16;
  std::size_t o_lora_rank = 16;
  std::size_t o_groups = 2;
  std::size_t moe_inter_dim = 24;
  std::size_t n_routed_experts = 4;
  std::size_t n_activated_experts = 2;
  float route_scale = 1.5f;
  float swiglu_limit = 10;
  std::size_t window_size = 8;
  std::vector<std::size_t> compress_ratios = {0, 0, 2, 2, 1, 1};
  std::vector<std::size_t> kv_source_layers = {2, 4};
  std::vector<std::size_t> index_source_layers = {2, 4, 5};
  std::size_t candidate_source_layer = 4;
  std::size_t candidate_topk_blocks = 3;
  std::size_t candidate_block_size = 2;
  std::size_t index_n_heads = 2;
  std::size_t index_head_dim = 32;
  std::size_t index_topk = 6;
  std::size_t hc_mult = 4;
  int hc_sinkhorn_iters = 20;
  float hc_eps = 1e-6f;
  float norm_eps = 1e-20f;
  float rope_theta = 10000;
  float compress_rope_theta = 40000;
  float rope_factor = 2;
  double original_seq_len = 32;
  double beta_fast = 32;
  double beta_slow = 1;
  std::vector<std::size_t> engram_layer_ids = {1, 4};
};

struct Expert {
  Matrix w1, w2, w3;
};

// Empty where a layer has no such part.
struct LayerWeights {
  Vector attn_norm, ffn_norm;
  Matrix hc_attn_fn, hc_ffn_fn;
  Vector hc_attn_base, hc_ffn_base, hc_attn_scale, hc_ffn_scale;
  Vector attn_sink;
  Matrix wq_a, wq_b, wkv, wo_a, wo_b;
  Vector q_norm, kv_norm;
  Matrix compressor_wkv, compressor_wgate;
  Vector compressor_norm;
  Matrix indexer_wq_b, indexer_weights_proj, indexer_wk;
  Vector indexer_k_norm;
  Matrix gate;
  Vector gate_bias, gate_bias_vl;
  std::vector<Expert> experts;
  Expert shared;
};

struct Weights {
  Matrix embed, head;
  Vector norm;
  std::vector<LayerWeights> layers;
};

// The raw numbers that everything is made from: splitmix64 of the name's FNV-1a hash and an index.
std::uint64_t raw_number(const std::string& name, std::uint64_t index);
// All values of a tensor, row-major, as its storage type keeps them (E4M3, E8M0, bfloat16 or
// float).
Vector tensor_values(const std::string& name, const std::vector<std::size_t>& shape);

Weights make_weights(const Shape& shape);

// Writes config.json, the token map (the identity) and the Engram tensors of the model, in the
// official layout, into a directory that exists.
engram::Status write_engram_model(const Shape& shape, const std::string& directory);

}  // namespace host
