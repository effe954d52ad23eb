// Rows to residual: project by wkv, gate each copy against its stream, add. Pure maths on spans.
//
// For every token t and residual copy c (all in binary32):
//   kv = wkv(e)                     e: the token's decoded rows, in column order
//   k[c] = kv[c*dim .. (c+1)*dim)   keys first; v = kv[copies*dim ..), one value for all copies
//   rstd = rsqrt(mean(h^2) + eps) * rsqrt(mean(k^2) + eps)
//   dot  = sum((h * (q*kw)) * k) * rstd * dim^-1/2
//   gate = sigmoid(copysign(sqrt(max(|dot|, 1e-6)), dot)), 0 where the mask is 0
//   out  = h + gate * v
// Reference: inference/model.py of DeepSeek-V4.1-Flash, revision dba1be0a; docs/ALGORITHM.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engram/export.h"
#include "engram/status.hpp"

namespace engram {

struct GateShape {
  std::size_t copies = 0;         // residual streams
  std::size_t hidden_dim = 0;     // of one copy
  std::size_t embedding_dim = 0;  // columns * head_dim: width of the wkv input

  std::size_t wkv_rows() const { return (copies + 1) * hidden_dim; }
};

// Where the result is rounded to bfloat16.
enum class Rounding : std::uint8_t {
  reference,  // as the reference's types do: wkv's output, and the updated stream
  none,       // nowhere: binary32 throughout
};

// The weights. They are borrowed: keep them alive, naturally aligned, as long as the Gate.
struct GateTensors {
  std::span<const std::byte> wkv;        // [wkv_rows, embedding_dim] E4M3FN, bfloat16 or binary32
  std::span<const std::byte> wkv_scale;  // [ceil(wkv_rows/32), embedding_dim/32] E8M0, for E4M3FN
  std::span<const std::byte> q_weight;   // [copies, hidden_dim] bfloat16 or binary32
  std::span<const std::byte> k_weight;   // the same
  bool wide = false;                     // wkv, q_weight and k_weight are binary32
};

// The contract of checkpoints whose residual stream is rotated, h_rot = h Q (Ascend's quarot): keys
// and gate work on h = h_rot Q^T, the value rows of wkv already hold Q^T V, so the update h_rot +
// gate * v needs no rotation. Q is orthogonal and repeats one block along its diagonal.
struct GateRotation {
  std::size_t block = 0;      // 0: not rotated; otherwise divides hidden_dim
  std::vector<float> matrix;  // Q's block, [block, block] row-major
};

// One call's data. Token-major; T tokens.
struct GateInput {
  std::span<const std::uint16_t> embedding;  // [T, embedding_dim] bfloat16: the decoded rows
  std::span<const float> hidden;             // [T, copies, hidden_dim]
  std::span<const std::uint8_t> mask;        // [T], 0: leave this token alone; or empty: all 1
  Rounding rounding = Rounding::reference;
};

// Scratch memory of apply; grows to the largest block (32 tokens) and stays. One thread at a time.
struct GateWorkspace {
  std::vector<float> embedding;
  std::vector<float> scaled;
  std::vector<float> projected;
  std::vector<float> unrotated;
};

// Immutable; any number of threads may apply at once, each with its own workspace.
class ENGRAM_API Gate {
 public:
  // Checks every byte count, and that no weight is NaN: Code::corrupt says where. FP8 tile scales
  // outside 2^-63 .. 2^63 are Code::unsupported. `threads` speeds the check.
  static Result<Gate> create(const GateShape& shape, const GateTensors& tensors, double norm_eps,
                             int threads = 1, GateRotation rotation = {});

  const GateShape& shape() const { return shape_; }

  // out [T, copies, hidden_dim] may be the same memory as input.hidden. Tokens with mask 0 are
  // copied unchanged, whatever their bits. gates [T, copies] receives the gate values, or is empty.
  // The same bits for any split of the tokens into calls and any number of threads.
  // Cost: wkv is read once per 32 tokens; one token of V4.1 reads 157 MB.
  Status apply(const GateInput& input, std::span<float> out, std::span<float> gates,
               GateWorkspace& workspace, int threads = 1) const;

 private:
  Gate(const GateShape& shape, const GateTensors& tensors, float norm_eps, GateRotation rotation);
  Status check(const GateInput& input, std::span<float> out, std::span<float> gates) const;
  Status project(std::size_t tokens, GateWorkspace& workspace, int threads) const;
  float gate_of(const float* h, const float* k, const float* weight) const;
  void gate_token(const float* projected, const float* hidden, Rounding rounding, float* out,
                  float* gates, std::vector<float>& unrotated) const;

  GateShape shape_;
  GateTensors tensors_;
  float norm_eps_;
  GateRotation rotation_;
  std::vector<float> qk_weight_;  // [copies, hidden_dim], q_weight * k_weight in binary32
};

}  // namespace engram
