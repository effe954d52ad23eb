// Attention: one latent row per position for all heads, in a window and compressed behind it.
#include <algorithm>
#include <cmath>

#include "decoder.hpp"

namespace host {
namespace {

// The last source at or before a layer.
std::size_t source_of(const std::vector<std::size_t>& sources, std::size_t layer) {
  return *(std::upper_bound(sources.begin(), sources.end(), layer) - 1);
}

}  // namespace

Matrix Decoder::attention(std::size_t layer, const Matrix& x, Step& step) {
  const LayerWeights& w = weights_.layers[layer];
  LayerState& state = states_[layer];
  const Matrix qr = rms_norm(linear(x, w.wq_a), w.q_norm, shape_.norm_eps);
  Matrix q = linear(qr, w.wq_b);
  rotate_rows(layer, q, step.begin, 1);
  Matrix kv = rms_norm(linear(x, w.wkv), w.kv_norm, shape_.norm_eps);
  rotate_rows(layer, kv, step.begin, 1);
  for (std::size_t t = 0; t < kv.rows(); ++t) through_fp8(kv.row(t));
  state.window.append(kv.values, kv.columns);
  if (shape_.compress_ratios[layer] != 0) {
    compress(layer, x, step);
    pick(layer, x, qr, step);
  } else {
    step.picks.assign(step.count, {});
  }
  Matrix o = attend(layer, q, step);
  show_attention(layer, q, o, step);
  rotate_rows(layer, o, step.begin, 1, -1);
  // The first projection is cut into groups of heads.
  const std::size_t group = o.columns / shape_.o_groups;
  Matrix z(o.rows(), shape_.o_groups * shape_.o_lora_rank);
  for (std::size_t t = 0; t < o.rows(); ++t) {
    for (std::size_t i = 0; i < z.columns; ++i) {
      const auto part = o.row(t).subspan(i / shape_.o_lora_rank * group, group);
      z.row(t)[i] = bfloat16(dot(part, w.wo_a.row(i)));
    }
  }
  return linear(z, w.wo_b);
}

// o = bf16(sum exp(s - M) / Z * row), s = q . row / sqrt(head_dim), Z with the head's sink, which
// has no row.
Matrix Decoder::attend(std::size_t layer, const Matrix& q, const Step& step) const {
  const std::size_t dim = shape_.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  Matrix out(q.rows(), q.columns);
  for (std::size_t t = 0; t < q.rows(); ++t) {
    const std::size_t last = step.begin + t;
    std::vector<std::span<const float>> rows;
    for (std::size_t p = last + 1 - std::min(last + 1, shape_.window_size); p <= last; ++p) {
      rows.push_back(states_[layer].window.row(p));
    }
    for (const int j : step.picks[t]) {
      if (j >= 0) rows.push_back(compressed_rows(layer).row(static_cast<std::size_t>(j)));
    }
    for (std::size_t head = 0; head < shape_.n_heads; ++head) {
      const float sink = weights_.layers[layer].attn_sink[head];
      Vector scores;
      for (const auto row : rows)
        scores.push_back(dot(q.row(t).subspan(head * dim, dim), row) * scale);
      const float largest = std::max(sink, *std::max_element(scores.begin(), scores.end()));
      float total = std::exp(sink - largest);
      for (float& score : scores) total += score = std::exp(score - largest);
      for (std::size_t i = 0; i < dim; ++i) {
        float sum = 0;
        for (std::size_t j = 0; j < rows.size(); ++j) sum += scores[j] / total * rows[j][i];
        out.row(t)[head * dim + i] = bfloat16(sum);
      }
    }
  }
  return out;
}

// Latents of the groups of positions that this step completes, into the layer's own cache.
void Decoder::compress(std::size_t layer, const Matrix& x, const Step& step) {
  const LayerWeights& w = weights_.layers[layer];
  if (w.compressor_norm.empty()) return;
  LayerState& state = states_[layer];
  const std::size_t ratio = shape_.compress_ratios[layer];
  const std::size_t first = state.compressed.rows();
  Matrix latents;
  if (ratio == 1) {
    latents = linear(x, w.compressor_wkv);
  } else {
    state.pool_u.append(product(x, w.compressor_wkv).values, shape_.head_dim);
    state.pool_g.append(product(x, w.compressor_wgate).values, shape_.head_dim);
    latents = Matrix(step.end() / ratio - first, shape_.head_dim);
    for (std::size_t j = 0; j < latents.rows(); ++j) {
      for (std::size_t i = 0; i < shape_.head_dim; ++i) {
        const auto at = [&](const Matrix& rows, std::size_t k) {
          return rows.row((first + j) * ratio + k)[i];
        };
        float largest = at(state.pool_g, 0);
        for (std::size_t k = 1; k < ratio; ++k) largest = std::max(largest, at(state.pool_g, k));
        float total = 0;
        for (std::size_t k = 0; k < ratio; ++k) total += std::exp(at(state.pool_g, k) - largest);
        float sum = 0;
        for (std::size_t k = 0; k < ratio; ++k) {
          sum += std::exp(at(state.pool_g, k) - largest) / total * at(state.pool_u, k);
        }
        latents.row(j)[i] = bfloat16(sum);
      }
    }
  }
  latents = rms_norm(latents, w.compressor_norm, shape_.norm_eps);
  // The index key is made from the latent before it is rotated and stored.
  add_index_keys(layer, latents, first);
  rotate_rows(layer, latents, first * ratio, ratio);
  for (std::size_t j = 0; j < latents.rows(); ++j) through_nvfp4(latents.row(j));
  state.compressed.append(latents.values, shape_.head_dim);
}

void Decoder::rotate_rows(std::size_t layer, Matrix& x, std::size_t first, std::size_t stride,
                          float direction) const {
  const bool compressed = shape_.compress_ratios[layer] != 0;
  const Vector& frequencies = compressed ? compressed_frequencies_ : window_frequencies_;
  // Every head has its own rotated part; rows of one head only are as wide as it.
  const std::size_t width = x.columns % shape_.head_dim == 0 ? shape_.head_dim : x.columns;
  for (std::size_t t = 0; t < x.rows(); ++t) {
    for (std::size_t head = 0; head < x.columns; head += width) {
      rotate(x.row(t).subspan(head, width), frequencies, first + t * stride, direction);
    }
  }
}

const Matrix& Decoder::compressed_rows(std::size_t layer) const {
  return states_[source_of(shape_.kv_source_layers, layer)].compressed;
}

// As the reference has it at hand: a prefill attends to its own rows, a later step to a ring of
// window_size slots; compressed rows follow.
void Decoder::show_attention(std::size_t layer, const Matrix& q, const Matrix& out,
                             const Step& step) const {
  if (!observer_) return;
  const std::size_t window = shape_.window_size;
  const bool prefill = step.begin == 0;
  const Matrix& own = states_[layer].window;
  Matrix rows = prefill ? own : Matrix(window, shape_.head_dim);
  for (std::size_t p = step.end() - std::min(step.end(), window); !prefill && p < step.end(); ++p) {
    std::copy(own.row(p).begin(), own.row(p).end(), rows.row(p % window).begin());
  }
  const auto offset = static_cast<int>(rows.rows());
  if (shape_.compress_ratios[layer] != 0) {
    rows.append(compressed_rows(layer).values, shape_.head_dim);
  }
  std::vector<double> lists;
  for (std::size_t t = 0; t < step.count; ++t) {
    const std::size_t last = step.begin + t;
    for (std::size_t j = 0; j < std::min(prefill ? step.count : window, window); ++j) {
      const std::size_t from = prefill ? last + 1 - std::min(last + 1, window) : last + 1;
      const std::size_t value = prefill ? from + j : (from + j) % window;
      lists.push_back(value > last ? -1.0 : static_cast<double>(value));
    }
    for (const int pick : step.picks[t]) lists.push_back(pick < 0 ? -1.0 : pick + offset);
  }
  show(name(layer, "sa_q"), q);
  show(name(layer, "sa_kv"), rows);
  observer_(name(layer, "sa_topk_idxs"), lists);
  show(name(layer, "sa_o"), out);
}

}  // namespace host
