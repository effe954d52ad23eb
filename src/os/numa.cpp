// Memory nodes: how many there are, which is near, and where pages go.
#include "os/numa.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>

#include "base/error.hpp"

namespace engram::os {
namespace {

constexpr int kNodesMax = 1024;

// A list such as "0-3,8", as sysfs writes it.
std::vector<int> read_nodes(const char* path) {
  std::ifstream file(path);
  std::vector<int> nodes;
  int first = 0;
  while (file >> first && first >= 0 && first < kNodesMax) {
    int last = first;
    char separator = 0;
    if (file.get(separator) && separator == '-') {
      file >> last;
      file.get(separator);
    }
    for (int node = first; node <= last && node < kNodesMax; ++node) nodes.push_back(node);
    if (separator != ',') break;
  }
  return nodes;
}

// mbind(2). Called by number: libnuma would be a dependency for one line.
Status place(std::span<std::byte> bytes, int mode, std::span<const int> nodes) {
  if (bytes.empty()) return {};
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kNodesMax / kBits> mask{};
  for (const int node : nodes) {
    mask[static_cast<std::size_t>(node) / kBits] |= 1ul << static_cast<std::size_t>(node) % kBits;
  }
  if (::syscall(SYS_mbind, bytes.data(), bytes.size(), mode, mask.data(), kNodesMax + 1, 0) == 0) {
    return {};
  }
  Error error = system_error(errno, "cannot place memory on its nodes", "memory");
  error.code = Code::unsupported;
  return error;
}

}  // namespace

const std::vector<int>& numa_nodes() {
  static const std::vector<int> nodes = [] {
    auto found = read_nodes("/sys/devices/system/node/has_memory");
    return found.empty() ? std::vector<int>{0} : found;
  }();
  return nodes;
}

int current_numa_node() {
  unsigned processor = 0;
  unsigned node = 0;
  return ::getcpu(&processor, &node) == 0 ? static_cast<int>(node) : 0;
}

Status bind_to_node(std::span<std::byte> bytes, int node) {
  return place(bytes, MPOL_BIND, {&node, 1});
}

Status interleave_nodes(std::span<std::byte> bytes) {
  return place(bytes, MPOL_INTERLEAVE, numa_nodes());
}

}  // namespace engram::os
