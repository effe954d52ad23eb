// Finds, for each of a batch of identities, the first one equal to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace engram {

// An open-addressing table that is cleared for every batch and never shrinks.
class FirstSeen {
 public:
  // Makes room for `count` identities and forgets the previous batch.
  void reset(std::size_t count);

  // The index of the first identity equal to (value, kind), which is `index` if it is new.
  std::size_t find_or_add(std::uint64_t value, std::uint64_t kind, std::size_t index);

 private:
  struct Place {
    std::uint64_t value;
    std::uint32_t kind;
    std::uint32_t index_plus_one;  // 0: free
  };
  std::vector<Place> places_;  // a power of two, at most half full
  std::size_t mask_ = 0;
};

}  // namespace engram
