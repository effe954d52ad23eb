// Where rows of a table lie in its files.
#include <algorithm>

#include "engram/checkpoint.hpp"

namespace engram {

std::vector<std::string> TensorExtent::files() const {
  return parts.empty() ? std::vector<std::string>{path} : parts;
}

std::vector<const TensorExtent*> TableSource::tensors() const {
  std::vector<const TensorExtent*> result = {&weight};
  if (scale) result.push_back(&*scale);
  if (bias) result.push_back(&*bias);
  return result;
}

std::uint64_t TableSource::held_count() const {
  if (!held) return row_count;
  std::uint64_t count = 0;
  for (const RowRange& range : *held) count += range.count();
  return count;
}

std::optional<std::uint64_t> TableSource::held_position(std::uint64_t row) const {
  std::uint64_t before = 0;
  for (const RowRange& range : *held) {
    if (row < range.begin) return std::nullopt;
    if (row < range.end) return before + (row - range.begin);
    before += range.count();
  }
  return std::nullopt;
}

std::uint64_t TableSource::global_row(std::uint64_t position) const {
  if (!held) return position;
  for (const RowRange& range : *held) {
    if (position < range.count()) return range.begin + position;
    position -= range.count();
  }
  return row_count;
}

}  // namespace engram
