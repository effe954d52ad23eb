// Byte-pair merges of one piece, lowest rank first and leftmost among equals.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engram/status.hpp"

#include "base/json.hpp"
#include "token/tokenizer_json.hpp"

namespace engram {

// Immutable after make; safe to share between threads.
class Bpe {
 public:
  // `file` must outlive the result. Code::unsupported where the model is not plain byte-level BPE.
  static Result<Bpe> make(const TokenizerJson& file);

  // Appends the ids of one piece (raw bytes) to `out`.
  // Code::unsupported for a byte that the vocabulary does not have.
  Status encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    std::int32_t rank;
    TokenId merged;
  };
  Status read_merges(JsonElement merges, const TokenizerJson& file);

  std::array<TokenId, 256> byte_ids_{};              // -1 where the vocabulary lacks the byte
  std::unordered_map<std::uint64_t, Merge> merges_;  // left id << 32 | right id
  const std::unordered_map<std::string_view, TokenId>* vocabulary_ = nullptr;
  bool whole_piece_first_ = false;  // "ignore_merges": a piece that is a token needs no merging
};

}  // namespace engram
