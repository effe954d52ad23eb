// The look-back of a sequence: its last few compressed ids, as a value.
#include <algorithm>

#include "engram/hash.hpp"

namespace engram {

Lookback::Lookback(std::span<const CompressedId> newest_first) : Lookback() {
  std::copy_n(newest_first.begin(), std::min(newest_first.size(), ids_.size()), ids_.begin());
}

Lookback Lookback::after(std::span<const CompressedId> compressed) const {
  Lookback result;
  for (std::size_t distance = 0; distance < ids_.size(); ++distance) {
    result.ids_[distance] = distance < compressed.size()
                                ? compressed[compressed.size() - 1 - distance]
                                : ids_[distance - compressed.size()];
  }
  return result;
}

}  // namespace engram
