// Which compressed rows a token attends to: scores of the index heads, candidate blocks, the
// greatest.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "decoder.hpp"

namespace host {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

bool has(const std::vector<std::size_t>& layers, std::size_t layer) {
  return std::find(layers.begin(), layers.end(), layer) != layers.end();
}

}  // namespace

// A layer without an index of its own takes what the one before it has picked.
void Decoder::pick(std::size_t layer, const Matrix& x, const Matrix& qr, Step& step) {
  if (!has(shape_.index_source_layers, layer)) return;
  const std::size_t ratio = shape_.compress_ratios[layer];
  Matrix scores = index_scores(layer, x, qr, step);
  if (layer == shape_.candidate_source_layer) candidates_.clear();
  step.picks.assign(step.count, {});
  for (std::size_t t = 0; t < step.count && scores.columns != 0; ++t) {
    // A group can be seen once its last token is the query or before it.
    const std::size_t visible = (step.begin + t + 1) / ratio;
    const auto row = scores.row(t);
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(std::min(visible, row.size())), row.end(),
              kHidden);
    if (layer == shape_.candidate_source_layer) {
      candidates_.push_back(candidate_mask(row, visible));
    } else if (layer > shape_.candidate_source_layer) {
      for (std::size_t j = 0; j < row.size(); ++j) {
        if (!candidates_[t][j]) row[j] = kHidden;
      }
    }
    auto picks = greatest(row, std::min(shape_.index_topk, row.size()));
    std::sort(picks.begin(), picks.end());
    for (const std::size_t j : picks) {
      step.picks[t].push_back(j < visible ? static_cast<int>(j) : -1);
    }
  }
}

void Decoder::add_index_keys(std::size_t layer, const Matrix& latents, std::size_t first) {
  const LayerWeights& w = weights_.layers[layer];
  if (latents.rows() == 0) return;
  Matrix keys = rms_norm(linear(latents, w.indexer_wk), w.indexer_k_norm, shape_.norm_eps);
  rotate_rows(layer, keys, first * shape_.compress_ratios[layer], shape_.compress_ratios[layer]);
  for (std::size_t j = 0; j < keys.rows(); ++j) through_mxfp4(keys.row(j));
  states_[layer].index_keys.append(keys.values, shape_.index_head_dim);
  keys_layer_ = layer;
}

// score[t][j] = bf16(sum over heads of bf16(relu(bf16(query . key)) * weight)), the sum in float.
Matrix Decoder::index_scores(std::size_t layer, const Matrix& x, const Matrix& qr,
                             const Step& step) const {
  const LayerWeights& w = weights_.layers[layer];
  const std::size_t dim = shape_.index_head_dim;
  Matrix queries = linear(qr, w.indexer_wq_b);
  rotate_rows(layer, queries, step.begin, 1);
  for (std::size_t t = 0; t < queries.rows(); ++t) through_mxfp4(queries.row(t));
  Matrix weights = linear(x, w.indexer_weights_proj);
  const auto scale = static_cast<float>(
      1 / std::sqrt(static_cast<double>(dim) * static_cast<double>(shape_.index_n_heads)));
  for (float& weight : weights.values) weight = bfloat16(weight * scale);
  const Matrix& keys = index_keys(layer);
  Matrix scores(step.count, step.end() / shape_.compress_ratios[layer]);
  for (std::size_t t = 0; t < step.count; ++t) {
    for (std::size_t j = 0; j < scores.columns; ++j) {
      float sum = 0;
      for (std::size_t head = 0; head < shape_.index_n_heads; ++head) {
        const float product = bfloat16(dot(queries.row(t).subspan(head * dim, dim), keys.row(j)));
        sum += bfloat16(std::max(product, 0.0f) * weights.row(t)[head]);
      }
      scores.row(t)[j] = bfloat16(sum);
    }
  }
  return scores;
}

const Matrix& Decoder::index_keys(std::size_t layer) const {
  const auto& sources = shape_.kv_source_layers;
  const std::size_t own = *(std::upper_bound(sources.begin(), sources.end(), layer) - 1);
  return states_[options_.keys_published_last ? keys_layer_ : own].index_keys;
}

// Blocks of positions by their greatest score; the one with the newest position is always kept.
std::vector<bool> Decoder::candidate_mask(std::span<const float> scores,
                                          std::size_t visible) const {
  const std::size_t size = shape_.candidate_block_size;
  Vector blocks((scores.size() + size - 1) / size, kHidden);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    blocks[j / size] = std::max(blocks[j / size], scores[j]);
  }
  if (visible > 0) blocks[(visible - 1) / size] = std::numeric_limits<float>::infinity();
  std::vector<bool> kept(blocks.size());
  for (const std::size_t block :
       greatest(blocks, std::min(shape_.candidate_topk_blocks, blocks.size()))) {
    kept[block] = blocks[block] != kHidden;
  }
  std::vector<bool> mask(scores.size());
  for (std::size_t j = 0; j < mask.size(); ++j) mask[j] = kept[j / size];
  return mask;
}

// Places of the `count` greatest scores, in any order. torch.topk on a CPU leaves equal scores as
// libstdc++ does, with std::nth_element, or std::partial_sort for a few out of many.
std::vector<std::size_t> Decoder::greatest(std::span<const float> scores, std::size_t count) const {
  std::vector<std::pair<float, std::size_t>> order;
  for (std::size_t j = 0; j < scores.size(); ++j) order.emplace_back(scores[j], j);
  const auto greater = [](const auto& a, const auto& b) { return a.first > b.first; };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  if (!options_.picks_of_the_reference) {
    std::stable_sort(order.begin(), order.end(), greater);
  } else if (count * 64 <= order.size()) {
    std::partial_sort(order.begin(), end, order.end(), greater);
  } else if (count > 0) {
    std::nth_element(order.begin(), end - 1, order.end(), greater);
  }
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) places.push_back(order[i].second);
  return places;
}

// The state that layers of the reference share, as the layer leaves it.
void Decoder::show_shared(std::size_t layer, const Step& step) const {
  const std::size_t ratio = shape_.compress_ratios[layer];
  if (!observer_ || ratio == 0) return;
  const std::string prefix = "shared." + name(layer, "");
  const std::size_t rows = step.end() / ratio;
  Matrix compressed = compressed_rows(layer);
  Matrix keys = index_keys(layer);
  compressed.truncate(rows);
  keys.truncate(rows);
  show(prefix + "compress_kv", compressed);
  show(prefix + "index_k", keys);
  const std::size_t offset = step.begin == 0 ? step.count : shape_.window_size;
  std::vector<double> picks;
  for (const auto& row : step.picks) {
    for (const int j : row) picks.push_back(j < 0 ? -1 : j + static_cast<double>(offset));
  }
  observer_(prefix + "topk_idxs", picks);
  std::vector<double> candidates;
  for (const auto& row : candidates_) candidates.insert(candidates.end(), row.begin(), row.end());
  observer_(prefix + "candidates", candidates);
}

}  // namespace host
