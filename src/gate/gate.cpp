// Rows to residual: project by wkv, gate each copy against its stream, add. Pure maths on spans.
#include "engram/gate.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "gate/gate_value.hpp"
#include "gate/rotation.hpp"
#include "gate/weights_check.hpp"
#include "simd/fp8.hpp"
#include "simd/projection.hpp"

namespace engram {
namespace {

// Tokens projected per pass over wkv: enough that arithmetic outweighs reading the weights, few
// enough that the activations stay in cache (32 x 6144 floats are 786 KB).
constexpr std::size_t kBlockTokens = 32;
// Rows of one work piece: one row of 32 x 32 tiles.
constexpr std::size_t kTileRows = simd::kFp8Group;

// Sums term(i) for i < count over sixteen lanes, then the lanes in order: one fixed order that a
// compiler can still vectorise.
template <typename Term>
float lane_sum(std::size_t count, Term term) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (; i < count; ++i) lanes[i % kLanes] += term(i);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

float rounded(float value) { return float_from_bfloat16(bfloat16_from_float(value)); }

}  // namespace

Gate::Gate(const GateShape& shape, const GateTensors& tensors, float norm_eps,
           GateRotation rotation)
    : shape_(shape), tensors_(tensors), norm_eps_(norm_eps), rotation_(std::move(rotation)) {
  const std::size_t count = shape.copies * shape.hidden_dim;
  const auto load = [&](std::span<const std::byte> weights, std::size_t i) {
    return tensors.wide ? load_le<float>(weights.data() + 4 * i)
                        : float_from_bfloat16(load_le<std::uint16_t>(weights.data() + 2 * i));
  };
  qk_weight_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    qk_weight_.push_back(load(tensors.q_weight, i) * load(tensors.k_weight, i));
  }
}

Result<Gate> Gate::create(const GateShape& shape, const GateTensors& tensors, double norm_eps,
                          int threads, GateRotation rotation) {
  ENGRAM_TRY(check_gate_tensors(shape, tensors, threads));
  if (!(norm_eps >= 0)) {
    return make_error(Code::invalid_argument, "gate: norm_eps: expected 0 or more, found {}",
                      norm_eps);
  }
  if (rotation.block != 0) ENGRAM_TRY(check_rotation(rotation, shape.hidden_dim));
  return Gate(shape, tensors, static_cast<float>(norm_eps), std::move(rotation));
}

Status Gate::check(const GateInput& input, std::span<float> out, std::span<float> gates) const {
  const std::size_t tokens = input.embedding.size() / shape_.embedding_dim;
  const std::size_t hidden = tokens * shape_.copies * shape_.hidden_dim;
  if (input.embedding.size() == tokens * shape_.embedding_dim && input.hidden.size() == hidden &&
      out.size() == hidden && (input.mask.empty() || input.mask.size() == tokens) &&
      (gates.empty() || gates.size() == tokens * shape_.copies)) {
    return {};
  }
  return make_error(
      Code::invalid_argument,
      "gate: for T tokens expected embedding T x {}, hidden and out T x {} x {}, mask "
      "T or none, gates T x {} or none; found {}, {}, {}, {} and {} elements",
      shape_.embedding_dim, shape_.copies, shape_.hidden_dim, shape_.copies, input.embedding.size(),
      input.hidden.size(), out.size(), input.mask.size(), gates.size());
}

// workspace.embedding [tokens, embedding_dim] -> workspace.projected [tokens, wkv_rows]
Status Gate::project(std::size_t tokens, GateWorkspace& workspace, int threads) const {
  const std::size_t columns = shape_.embedding_dim;
  const std::size_t rows = shape_.wkv_rows();
  const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
  // One contiguous share of tiles per thread: each streams its own part of wkv.
  const std::size_t shares = std::clamp<std::size_t>(threads > 1 ? threads : 1, 1, tiles);
  const bool fp8 = !tensors_.wkv_scale.empty();
  workspace.projected.resize(tokens * rows);
  workspace.scaled.resize(fp8 ? shares * tokens * columns : 0);
  return parallel_for(shares, threads, [&](std::size_t share) -> Status {
    for (std::size_t tile = tiles * share / shares; tile < tiles * (share + 1) / shares; ++tile) {
      const std::size_t row = tile * kTileRows;
      const simd::Projection p{
          std::min(kTileRows, rows - row),  columns, tokens, workspace.embedding.data(),
          workspace.projected.data() + row, rows};
      const std::size_t element_bytes = fp8 ? 1 : tensors_.wide ? 4 : 2;
      const std::byte* weights = tensors_.wkv.data() + row * columns * element_bytes;
      if (fp8) {
        const std::byte* scales = tensors_.wkv_scale.data() + tile * (columns / simd::kFp8Group);
        simd::project_fp8(p, reinterpret_cast<const std::uint8_t*>(weights),
                          reinterpret_cast<const std::uint8_t*>(scales),
                          workspace.scaled.data() + share * tokens * columns);
      } else if (tensors_.wide) {
        simd::project_float(p, reinterpret_cast<const float*>(weights));
      } else {
        simd::project_bfloat16(p, reinterpret_cast<const std::uint16_t*>(weights));
      }
    }
    return {};
  });
}

float Gate::gate_of(const float* h, const float* k, const float* weight) const {
  const std::size_t dim = shape_.hidden_dim;
  const auto count = static_cast<float>(dim);
  const float h_mean = lane_sum(dim, [&](std::size_t i) { return h[i] * h[i]; }) / count;
  const float k_mean = lane_sum(dim, [&](std::size_t i) { return k[i] * k[i]; }) / count;
  const float rstd = 1.0f / std::sqrt(h_mean + norm_eps_) * (1.0f / std::sqrt(k_mean + norm_eps_));
  const float product = lane_sum(dim, [&](std::size_t i) { return h[i] * weight[i] * k[i]; });
  return gate_value(product * rstd * (1.0f / std::sqrt(count)));
}

void Gate::gate_token(const float* projected, const float* hidden, Rounding rounding, float* out,
                      float* gates, std::vector<float>& unrotated) const {
  const std::size_t dim = shape_.hidden_dim;
  const float* value = projected + shape_.copies * dim;
  for (std::size_t copy = 0; copy < shape_.copies; ++copy) {
    const float* h = hidden + copy * dim;
    const float* gated = h;
    if (rotation_.block != 0) {
      unrotated.resize(dim);
      multiply_transposed(rotation_, {h, dim}, unrotated);
      gated = unrotated.data();
    }
    const float gate = gate_of(gated, projected + copy * dim, qk_weight_.data() + copy * dim);
    if (gates != nullptr) gates[copy] = gate;
    for (std::size_t i = 0; i < dim; ++i) {
      const float updated = h[i] + gate * value[i];
      out[copy * dim + i] = rounding == Rounding::reference ? rounded(updated) : updated;
    }
  }
}

Status Gate::apply(const GateInput& input, std::span<float> out, std::span<float> gates,
                   GateWorkspace& workspace, int threads) const {
  ENGRAM_TRY(check(input, out, gates));
  const std::size_t tokens = input.embedding.size() / shape_.embedding_dim;
  const std::size_t stream = shape_.copies * shape_.hidden_dim;
  for (std::size_t begin = 0; begin < tokens; begin += kBlockTokens) {
    const std::size_t count = std::min(kBlockTokens, tokens - begin);
    const auto embedding =
        input.embedding.subspan(begin * shape_.embedding_dim, count * shape_.embedding_dim);
    workspace.embedding.resize(embedding.size());
    std::transform(embedding.begin(), embedding.end(), workspace.embedding.begin(),
                   float_from_bfloat16);
    ENGRAM_TRY(project(count, workspace, threads));
    if (input.rounding == Rounding::reference) {
      for (float& element : workspace.projected) element = rounded(element);
    }
    for (std::size_t token = begin; token < begin + count; ++token) {
      const float* hidden = input.hidden.data() + token * stream;
      float* token_out = out.data() + token * stream;
      float* token_gates = gates.empty() ? nullptr : gates.data() + token * shape_.copies;
      if (!input.mask.empty() && input.mask[token] == 0) {
        std::copy_n(hidden, hidden == token_out ? 0 : stream, token_out);
        if (token_gates != nullptr) std::fill_n(token_gates, shape_.copies, 0.0f);
        continue;
      }
      gate_token(workspace.projected.data() + (token - begin) * shape_.wkv_rows(), hidden,
                 input.rounding, token_out, token_gates, workspace.unrotated);
    }
  }
  return {};
}

}  // namespace engram
