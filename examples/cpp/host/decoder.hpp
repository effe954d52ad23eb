// A small DeepSeek-V4.1 text decoder with libengram as its memory: what a runtime has to do,
// without anything that makes one fast.
//
//   host::Decoder decoder(weights, shape, engine);
//   auto logits = decoder.forward(prompt, mask);     // [tokens, vocabulary]
//   decoder.accept(prompt.size());
//   auto drafts = decoder.forward(token_and_drafts);
//   decoder.accept(1 + accepted);                    // the others leave no trace
//
// The four calls that concern the memory stand in forward and accept: prepare and prefetch as soon
// as ids are known, apply before each Engram layer, commit what was accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engram/engine.hpp"

#include "numbers.hpp"
#include "weights.hpp"

namespace host {

// Two readings of the released code that differ where it is ambiguous.
struct Options {
  // The release scores a step against the index keys published last, which may be another layer's;
  // with false, every layer scores against its own source's. Only then are a prefill and its single
  // steps equal. The release's way takes one prefill, then one token at a time.
  bool keys_published_last = true;
  // Equal scores are picked as libstdc++'s nth_element leaves them, which depends on the row's
  // length; with false, the lowest positions win.
  bool picks_of_the_reference = true;
};

// Sees a named intermediate result: its values in row-major order.
using Observer = std::function<void(const std::string& name, const std::vector<double>& values)>;

class Decoder {
 public:
  // The engine must outlive the decoder.
  Decoder(const Weights& weights, const Shape& shape, const engram::Engine& engine,
          Options options = {});

  // Runs tokens behind the accepted ones through all layers -> logits [tokens, vocab_size]. mask
  // [tokens] or empty: 0 where a token is an image's; `images` [tokens, dim] then has the embedding
  // of those. Tokens of an earlier forward that were not accepted are forgotten.
  engram::Result<Matrix> forward(std::span<const engram::TokenId> tokens,
                                 std::span<const std::uint8_t> mask = {},
                                 const Matrix& images = {});
  // Keeps the first `count` tokens of the last forward.
  engram::Status accept(std::size_t count);

  std::size_t position() const { return position_; }
  void observe(Observer observer) { observer_ = std::move(observer); }

 private:
  // What a layer keeps of every position: whole histories, of which attention takes the last
  // window_size rows, so that rows of rejected drafts overwrite nothing.
  struct LayerState {
    Matrix window;          // [positions, head_dim]
    Matrix pool_u, pool_g;  // [positions, head_dim], of a source that pools
    Matrix compressed;      // [positions / ratio, head_dim]
    Matrix index_keys;      // [positions / ratio, index_head_dim]
  };
  // Weights of the residual copies for one sublayer, of every token.
  struct Mixes {
    Matrix pre;   // [tokens, copies]
    Matrix post;  // [tokens, copies]
    Matrix comb;  // [tokens, copies * copies]: old copy, new copy
  };
  // What one forward carries from layer to layer.
  struct Step {
    std::size_t begin = 0;  // position of its first token
    std::size_t count = 0;
    std::span<const std::uint8_t> mask;
    Matrix streams;                       // [tokens, copies * dim]
    Matrix pre;                           // [tokens, copies]: of the next sublayer
    std::vector<std::vector<int>> picks;  // per token: compressed rows, -1 where none
    std::size_t end() const { return begin + count; }
  };

  void forget_after(std::size_t position);
  void embed(std::span<const engram::TokenId> tokens, const Matrix& images, Step& step);
  engram::Status engram(std::size_t layer, Step& step);
  void block(std::size_t layer, Step& step);
  Mixes mixes(const Matrix& streams, const Matrix& fn, const Vector& scale,
              const Vector& base) const;
  Matrix collapse(const Matrix& streams, const Matrix& pre) const;
  void expand(const Matrix& x, const Mixes& mixes, Matrix& streams) const;

  // attention.cpp
  Matrix attention(std::size_t layer, const Matrix& x, Step& step);
  Matrix attend(std::size_t layer, const Matrix& q, const Step& step) const;
  void compress(std::size_t layer, const Matrix& x, const Step& step);
  // Rotated by the layer's own frequencies at each row's position, `stride` positions a row.
  void rotate_rows(std::size_t layer, Matrix& x, std::size_t first, std::size_t stride,
                   float direction = 1) const;
  const Matrix& compressed_rows(std::size_t layer) const;
  void show_attention(std::size_t layer, const Matrix& q, const Matrix& out,
                      const Step& step) const;

  // picks.cpp
  void pick(std::size_t layer, const Matrix& x, const Matrix& qr, Step& step);
  void add_index_keys(std::size_t layer, const Matrix& latents, std::size_t first);
  Matrix index_scores(std::size_t layer, const Matrix& x, const Matrix& qr, const Step& step) const;
  const Matrix& index_keys(std::size_t layer) const;
  std::vector<bool> candidate_mask(std::span<const float> scores, std::size_t visible) const;
  std::vector<std::size_t> greatest(std::span<const float> scores, std::size_t count) const;
  void show_shared(std::size_t layer, const Step& step) const;

  // experts.cpp
  Matrix experts(std::size_t layer, const Matrix& x, const Step& step) const;

  static std::string name(std::size_t layer, const char* what);
  void show(const std::string& name, const Matrix& values) const;

  const Weights& weights_;
  Shape shape_;
  Options options_;
  const engram::Engine* engine_;
  engram::Session session_;
  Vector window_frequencies_, compressed_frequencies_;
  std::vector<LayerState> states_;
  std::size_t keys_layer_ = 0;                 // whose index keys were published last
  std::vector<std::vector<bool>> candidates_;  // [tokens][compressed rows], published last
  std::size_t position_ = 0;                   // accepted
  Observer observer_;
};

}  // namespace host
