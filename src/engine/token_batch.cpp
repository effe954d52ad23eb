// Many sequences of raw token ids to keys.
#include <vector>

#include "engram/engine.hpp"

#include "base/error.hpp"

namespace engram {
namespace {

// One sequence's window of raw token ids, newest first, to compressed ids.
Status read_lookback(const TokenMap& map, std::span<const TokenId> window, Lookback& lookback) {
  std::vector<CompressedId> ids(window.size(), kDead);
  bool started = true;  // false from the start of the sequence on
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (!started && window[i] != kBeforeStart) {
      return make_error(Code::invalid_argument,
                        "lookback: position {} is known but position {}, after it, is not: history "
                        "inside a sequence must be whole",
                        i, i - 1);
    }
    started = window[i] != kBeforeStart;
    if (window[i] == kBeforeStart || window[i] == kMasked) continue;
    ENGRAM_TRY(map.compress(window.subspan(i, 1), {}, std::span(ids).subspan(i, 1)));
  }
  lookback = Lookback(ids);
  return {};
}

}  // namespace

Status hash_batch(const TokenMap& map, const Hasher& hasher, const TokenBatch& batch,
                  std::span<Key> keys) {
  const auto orders = static_cast<std::size_t>(hasher.spec().config().orders());
  if (batch.query_start.empty() ||
      batch.lookback.size() != (batch.query_start.size() - 1) * orders) {
    return make_error(Code::invalid_argument,
                      "lookback: expected {} ids for each of the sequences that {} starts make, "
                      "found {}",
                      orders, batch.query_start.size(), batch.lookback.size());
  }
  std::vector<CompressedId> compressed(batch.tokens.size());
  ENGRAM_TRY(map.compress(batch.tokens, batch.mask, compressed));
  std::vector<Lookback> lookbacks(batch.query_start.size() - 1);
  for (std::size_t i = 0; i < lookbacks.size(); ++i) {
    ENGRAM_TRY(read_lookback(map, batch.lookback.subspan(i * orders, orders), lookbacks[i]));
  }
  return hasher.batch_keys(compressed, batch.query_start, lookbacks, keys);
}

}  // namespace engram
