// Little-endian loads and stores at any alignment; every format here is little endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace engram {

static_assert(std::endian::native == std::endian::little,
              "tables are served as they lie on disk, which is little endian");

template <typename T>
T load_le(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename T>
void store_le(std::byte* bytes, T value) {
  std::memcpy(bytes, &value, sizeof(T));
}

}  // namespace engram
