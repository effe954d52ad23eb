// The mixture of experts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "decoder.hpp"

namespace host {
namespace {

// w2 . bf16(weight * silu(min(w1 . x, limit)) * clamp(w3 . x)); the gate is clamped from above
// only.
Matrix run(const Expert& expert, const Matrix& x, float weight, float limit) {
  Matrix gate = linear(x, expert.w1);
  const Matrix up = linear(x, expert.w3);
  for (std::size_t i = 0; i < gate.values.size(); ++i) {
    const float g = std::min(gate.values[i], limit);
    const float u = std::clamp(up.values[i], -limit, limit);
    gate.values[i] = bfloat16(weight * (g / (1.0f + std::exp(-g)) * u));
  }
  return linear(gate, expert.w2);
}

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace

// Scores are sqrt(softplus(gate . x)). The bias decides which experts are chosen and has no part in
// their weights; an image's tokens have a bias of their own.
Matrix Decoder::experts(std::size_t layer, const Matrix& x, const Step& step) const {
  const LayerWeights& w = weights_.layers[layer];
  const std::size_t chosen = shape_.n_activated_experts;
  const Matrix z = product(x, w.gate);
  Matrix out(x.rows(), shape_.dim);
  Matrix weights(x.rows(), chosen);
  Matrix indices(x.rows(), chosen);
  for (std::size_t t = 0; t < x.rows(); ++t) {
    Vector scores(shape_.n_routed_experts);
    std::transform(z.row(t).begin(), z.row(t).end(), scores.begin(),
                   [](float value) { return std::sqrt(softplus(value)); });
    const bool image = !step.mask.empty() && step.mask[t] == 0;
    const Vector& bias = image ? w.gate_bias_vl : w.gate_bias;
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return scores[a] + bias[a] > scores[b] + bias[b];
    });
    order.resize(chosen);
    float total = 1e-20f;
    for (const std::size_t expert : order) total += scores[expert];
    for (std::size_t i = 0; i < chosen; ++i) {
      weights.row(t)[i] = scores[order[i]] / total * shape_.route_scale;
      indices.row(t)[i] = static_cast<float>(order[i]);
    }
    // Routed experts in the order of their ids, the shared one last; one rounding at the end.
    Matrix token;
    token.append(x.row(t), x.columns);
    Vector sum(shape_.dim);
    const auto add = [&](const Expert& expert, float weight) {
      const Matrix y = run(expert, token, weight, shape_.swiglu_limit);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += y.values[i];
    };
    for (std::size_t expert = 0; expert < w.experts.size(); ++expert) {
      const auto place = std::find(order.begin(), order.end(), expert);
      if (place == order.end()) continue;
      add(w.experts[expert], weights.row(t)[static_cast<std::size_t>(place - order.begin())]);
    }
    add(w.shared, 1);
    std::transform(sum.begin(), sum.end(), out.row(t).begin(), bfloat16);
  }
  show(name(layer, "moe_weights"), weights);
  show(name(layer, "moe_indices"), indices);
  return out;
}

}  // namespace host
