// Finds, for each of a batch of identities, the first one equal to it.
#include "memory/first_seen.hpp"

#include <algorithm>
#include <bit>

namespace engram {

void FirstSeen::reset(std::size_t count) {
  const std::size_t capacity = std::bit_ceil(2 * std::max<std::size_t>(count, 8));
  if (capacity > places_.size()) places_.resize(capacity);
  mask_ = capacity - 1;
  std::fill_n(places_.begin(), capacity, Place{});
}

std::size_t FirstSeen::find_or_add(std::uint64_t value, std::uint64_t kind, std::size_t index) {
  // Multiplying by an odd constant (2^64 / golden ratio) spreads low bits to the high ones.
  std::uint64_t hash = (value ^ kind << 59) * 0x9E37'79B9'7F4A'7C15u;
  hash ^= hash >> 32;
  for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
    Place& place = places_[i];
    if (place.index_plus_one == 0) {
      place = {value, static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(index + 1)};
      return index;
    }
    if (place.value == value && place.kind == kind) return place.index_plus_one - 1;
  }
}

}  // namespace engram
