// What the machine itself can do: the other half of every measurement.
#include "cli/bench_bounds.hpp"

#include <atomic>
#include <numeric>
#include <thread>

namespace engram::cli {
namespace {

constexpr std::size_t kLineBytes = 64;

std::uint64_t touch(const std::byte* bytes, std::size_t size) {
  if (bytes == nullptr) return 0;
  std::uint64_t sum = static_cast<std::uint64_t>(bytes[size - 1]);
  for (std::size_t at = 0; at < size; at += kLineBytes) {
    sum += static_cast<std::uint64_t>(bytes[at]);
  }
  return sum;
}

}  // namespace

std::uint64_t touch_lines(std::span<const RowView> views, const RowLayout& layout) {
  std::uint64_t sum = 0;
  for (const RowView& view : views) {
    sum += touch(view.codes, layout.code_bytes());
    sum += touch(view.scales, layout.scale_bytes());
    sum += touch(view.biases, layout.bias_bytes());
  }
  return sum;
}

std::uint64_t Stream::read(int threads) const {
  std::atomic<std::uint64_t> total{0};
  const auto part = [&](std::size_t index) {
    const std::size_t each = words_.size() / static_cast<std::size_t>(threads);
    const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(index * each);
    total += std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(each), std::uint64_t{0});
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads; ++i) helpers.emplace_back(part, static_cast<std::size_t>(i));
  part(0);
  helpers.clear();
  return total;
}

}  // namespace engram::cli
