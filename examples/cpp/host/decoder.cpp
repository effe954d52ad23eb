// The decoder around attention and experts: embedding, hyper-connections, Engram, head.
#include "decoder.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace host {
namespace {

Vector rope_frequencies(const Shape& shape, float base) {
  Vector frequencies;
  const auto width = static_cast<float>(shape.rope_head_dim);
  for (std::size_t i = 0; i < shape.rope_head_dim / 2; ++i) {
    frequencies.push_back(1.0f / std::pow(base, static_cast<float>(2 * i) / width));
  }
  return frequencies;
}

// YaRN: between the pairs that turn beta_fast and beta_slow times over the original length, slow
// ones are stretched by the factor and fast ones kept.
void stretch(const Shape& shape, float base, Vector& frequencies) {
  const auto width = static_cast<double>(shape.rope_head_dim);
  const auto pair_of = [&](double turns) {
    return width * std::log(shape.original_seq_len / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(static_cast<double>(base)));
  };
  const double low = std::max(std::floor(pair_of(shape.beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair_of(shape.beta_slow)), width - 1);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(high - low, 0.001);
    const auto share = static_cast<float>(std::clamp(ramp, 0.0, 1.0));
    frequencies[i] = frequencies[i] / shape.rope_factor * share + frequencies[i] * (1 - share);
  }
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// Rows to sum 1 by softmax, then rows and columns in turn, columns last.
void sinkhorn(std::span<float> comb, std::size_t copies, int rounds, float eps) {
  for (std::size_t i = 0; i < copies; ++i) {
    const auto row = comb.subspan(i * copies, copies);
    const float largest = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (float& value : row) sum += value = std::exp(value - largest);
    for (float& value : row) value = value / sum + eps;
  }
  const auto divide = [&](std::size_t first, std::size_t step) {
    float sum = 0;
    for (std::size_t k = 0; k < copies; ++k) sum += comb[first + k * step];
    for (std::size_t k = 0; k < copies; ++k) comb[first + k * step] /= sum + eps;
  };
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; round > 0 && i < copies; ++i) divide(i * copies, 1);
    for (std::size_t j = 0; j < copies; ++j) divide(j, copies);
  }
}

}  // namespace

Decoder::Decoder(const Weights& weights, const Shape& shape, const engram::Engine& engine,
                 Options options)
    : weights_(weights),
      shape_(shape),
      options_(options),
      engine_(&engine),
      session_(engine),
      window_frequencies_(rope_frequencies(shape, shape.rope_theta)),
      compressed_frequencies_(rope_frequencies(shape, shape.compress_rope_theta)),
      states_(shape.n_layers) {
  stretch(shape_, shape_.compress_rope_theta, compressed_frequencies_);
}

engram::Result<Matrix> Decoder::forward(std::span<const engram::TokenId> tokens,
                                        std::span<const std::uint8_t> mask, const Matrix& images) {
  if (options_.keys_published_last && position_ > 0 && tokens.size() > 1) {
    return engram::Error{engram::Code::unsupported, 0,
                         "keys_published_last: one prefill, then one token at a time"};
  }
  // Ids are all that the memory needs: its reads begin here, long before the first Engram layer.
  if (auto status = session_.prepare(tokens, mask); !status) return std::move(status).error();
  if (auto status = session_.prefetch(); !status) return std::move(status).error();
  forget_after(position_);
  Step step{position_, tokens.size(), mask, {}, {}, {}};
  embed(tokens, images, step);
  for (std::size_t layer = 0; layer < shape_.n_layers; ++layer) {
    if (auto status = engram(layer, step); !status) return std::move(status).error();
    block(layer, step);
    show_shared(layer, step);
  }
  const Matrix last = collapse(step.streams, step.pre);
  const Matrix normed = rms_norm(last, weights_.norm, shape_.norm_eps);
  Matrix logits = product(normed, weights_.head);
  show("h_final", last);
  show("head_in", normed);
  show("logits_full", logits);
  return logits;
}

engram::Status Decoder::accept(std::size_t count) {
  if (auto status = session_.commit(count); !status) return status;
  position_ += count;
  forget_after(position_);
  return {};
}

void Decoder::forget_after(std::size_t position) {
  for (std::size_t layer = 0; layer < shape_.n_layers; ++layer) {
    const std::size_t ratio = std::max<std::size_t>(shape_.compress_ratios[layer], 1);
    LayerState& state = states_[layer];
    for (Matrix* rows : {&state.window, &state.pool_u, &state.pool_g}) rows->truncate(position);
    for (Matrix* rows : {&state.compressed, &state.index_keys}) rows->truncate(position / ratio);
  }
}

// Every copy begins as the embedding; the first sublayer reads copy 0 alone.
void Decoder::embed(std::span<const engram::TokenId> tokens, const Matrix& images, Step& step) {
  Matrix rows(step.count, shape_.dim);
  step.streams = Matrix(step.count, shape_.hc_mult * shape_.dim);
  step.pre = Matrix(step.count, shape_.hc_mult);
  for (std::size_t t = 0; t < step.count; ++t) {
    const bool image = !step.mask.empty() && step.mask[t] == 0;
    const auto from =
        image ? images.row(t) : weights_.embed.row(static_cast<std::size_t>(tokens[t]));
    std::copy(from.begin(), from.end(), rows.row(t).begin());
    for (std::size_t copy = 0; copy < shape_.hc_mult; ++copy) {
      std::copy(from.begin(), from.end(), step.streams.row(t).subspan(copy * shape_.dim).begin());
    }
    step.pre.row(t)[0] = 1;
  }
  show("embed", rows);
}

// The memory's whole part: the streams of this step, updated in place before the layer.
engram::Status Decoder::engram(std::size_t layer, Step& step) {
  if (std::find(shape_.engram_layer_ids.begin(), shape_.engram_layer_ids.end(), layer) ==
      shape_.engram_layer_ids.end()) {
    return {};
  }
  show(name(layer, "engram_in"), step.streams);
  const auto id = static_cast<std::int64_t>(layer);
  auto status = session_.apply(id, step.streams.values, engram::Rounding::reference);
  if (!status) return status;
  if (observer_) {
    const auto columns = static_cast<std::size_t>(engine_->hasher().spec().config().columns());
    std::vector<engram::RowId> rows(step.count * columns);
    status = session_.rows(id, rows);
    observer_(name(layer, "engram_hash_ids"), {rows.begin(), rows.end()});
  }
  show(name(layer, "engram_out"), step.streams);
  return status;
}

// A sublayer's `pre` weights are those of the sublayer before it; `post` and `comb` are its own.
void Decoder::block(std::size_t layer, Step& step) {
  const LayerWeights& w = weights_.layers[layer];
  show(name(layer, "h_in"), step.streams);
  show(name(layer, "pre_mix_in"), step.pre);
  const Mixes before = mixes(step.streams, w.hc_attn_fn, w.hc_attn_scale, w.hc_attn_base);
  show(name(layer, "attn_pre"), before.pre);
  show(name(layer, "attn_post"), before.post);
  show(name(layer, "attn_comb"), before.comb);
  Matrix in = rms_norm(collapse(step.streams, step.pre), w.attn_norm, shape_.norm_eps);
  show(name(layer, "attn_in"), in);
  Matrix out = attention(layer, in, step);
  show(name(layer, "attn_out"), out);
  expand(out, before, step.streams);
  const Mixes after = mixes(step.streams, w.hc_ffn_fn, w.hc_ffn_scale, w.hc_ffn_base);
  show(name(layer, "ffn_pre"), after.pre);
  in = rms_norm(collapse(step.streams, before.pre), w.ffn_norm, shape_.norm_eps);
  show(name(layer, "ffn_in"), in);
  out = experts(layer, in, step);
  show(name(layer, "ffn_out"), out);
  expand(out, after, step.streams);
  step.pre = after.pre;
  show(name(layer, "h_out"), step.streams);
  show(name(layer, "pre_mix_out"), step.pre);
}

// m = fn . v / sqrt(mean(v^2) + norm_eps), v all copies of a token;
// pre = sigmoid(m * scale + base) + hc_eps, post = 2 sigmoid(..), comb = sinkhorn(softmax(..)).
Decoder::Mixes Decoder::mixes(const Matrix& streams, const Matrix& fn, const Vector& scale,
                              const Vector& base) const {
  const std::size_t copies = shape_.hc_mult;
  Mixes result{Matrix(streams.rows(), copies), Matrix(streams.rows(), copies),
               Matrix(streams.rows(), copies * copies)};
  const Matrix projected = product(streams, fn);
  for (std::size_t t = 0; t < streams.rows(); ++t) {
    const auto v = streams.row(t);
    const float mean = dot(v, v) / static_cast<float>(v.size());
    const float rstd = 1.0f / std::sqrt(mean + shape_.norm_eps);
    const auto m = [&](std::size_t i, std::size_t kind) {
      return projected.row(t)[i] * rstd * scale[kind] + base[i];
    };
    for (std::size_t j = 0; j < copies; ++j) {
      result.pre.row(t)[j] = sigmoid(m(j, 0)) + shape_.hc_eps;
      result.post.row(t)[j] = 2 * sigmoid(m(copies + j, 1));
    }
    const auto comb = result.comb.row(t);
    for (std::size_t k = 0; k < comb.size(); ++k) comb[k] = m(2 * copies + k, 2);
    sinkhorn(comb, copies, shape_.hc_sinkhorn_iters, shape_.hc_eps);
  }
  return result;
}

// bf16(sum over copies j of pre[j] h[j])
Matrix Decoder::collapse(const Matrix& streams, const Matrix& pre) const {
  Matrix out(streams.rows(), shape_.dim);
  for (std::size_t t = 0; t < out.rows(); ++t) {
    for (std::size_t i = 0; i < shape_.dim; ++i) {
      float sum = 0;
      for (std::size_t copy = 0; copy < shape_.hc_mult; ++copy) {
        sum += pre.row(t)[copy] * streams.row(t)[copy * shape_.dim + i];
      }
      out.row(t)[i] = bfloat16(sum);
    }
  }
  return out;
}

// h[j] := bf16(post[j] x + sum over old copies i of comb[i][j] h[i])
void Decoder::expand(const Matrix& x, const Mixes& mixes, Matrix& streams) const {
  const std::size_t copies = shape_.hc_mult;
  for (std::size_t t = 0; t < x.rows(); ++t) {
    const Vector old(streams.row(t).begin(), streams.row(t).end());
    for (std::size_t j = 0; j < copies; ++j) {
      for (std::size_t d = 0; d < shape_.dim; ++d) {
        float sum = mixes.post.row(t)[j] * x.row(t)[d];
        for (std::size_t i = 0; i < copies; ++i) {
          sum += mixes.comb.row(t)[i * copies + j] * old[i * shape_.dim + d];
        }
        streams.row(t)[j * shape_.dim + d] = bfloat16(sum);
      }
    }
  }
}

std::string Decoder::name(std::size_t layer, const char* what) {
  return "L" + std::to_string(layer) + "." + what;
}

void Decoder::show(const std::string& name, const Matrix& values) const {
  if (observer_) observer_(name, {values.values.begin(), values.values.end()});
}

}  // namespace host
