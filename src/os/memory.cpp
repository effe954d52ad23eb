// Huge-page buffers, and how much memory is left.
#include "os/memory.hpp"

#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "base/error.hpp"

namespace engram::os {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;  // x86-64 and 4 KiB-granule arm64

// The number in a one-number file such as cgroup's memory.max; nothing for "max" or no file.
std::uint64_t read_number(const std::string& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : otherwise;
}

std::uint64_t meminfo_available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib << 10;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

// The limit of every cgroup (version 2) from this process up to the root, less what it uses.
std::uint64_t cgroup_available_bytes() {
  constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();
  std::ifstream file("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) group = line.substr(3);
  }
  if (group == "/") group.clear();
  std::uint64_t available = unknown;
  for (;;) {
    const std::string base = "/sys/fs/cgroup" + group;
    const std::uint64_t limit = read_number(base + "/memory.max", unknown);
    const std::uint64_t used = read_number(base + "/memory.current", 0);
    if (limit != unknown) available = std::min(available, limit - std::min(limit, used));
    // In a container the limit is on the root that the process sees, so that is asked too.
    if (group.empty()) return available;
    group.resize(group.find_last_of('/'));
  }
}

// Memory from the pool of reserved pages, which takes them at once: no fault can fail later.
Result<std::span<std::byte>> map_reserved(std::size_t size_bytes, HugePages pages) {
  const int shift = pages == HugePages::reserved_2m ? 21 : 30;
  const std::size_t page_bytes = std::size_t{1} << shift;
  const std::size_t count = (size_bytes + page_bytes - 1) / page_bytes;
  void* data = ::mmap(nullptr, count * page_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | shift << MAP_HUGE_SHIFT, -1, 0);
  if (data != MAP_FAILED) return std::span(static_cast<std::byte*>(data), count * page_bytes);
  Error error = system_error(
      errno,
      fmt::format("cannot take {} reserved pages of {} bytes ({} are free; see vm.nr_hugepages)",
                  count, page_bytes,
                  read_number(fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages",
                                          page_bytes >> 10),
                              0)),
      "memory");
  error.code = Code::out_of_memory;
  return error;
}

}  // namespace

Result<HugeBuffer> HugeBuffer::allocate(std::size_t size_bytes, HugePages pages) {
  if (size_bytes == 0) return HugeBuffer(nullptr, 0, pages);
  if (pages != HugePages::transparent) {
    auto data = map_reserved(size_bytes, pages);
    if (!data) return std::move(data).error();
    return HugeBuffer(data->data(), data->size(), pages);
  }
  // Room to align by hand: mmap only promises 4 KiB, and an unaligned edge cannot be huge.
  const std::size_t rounded = (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* data = ::mmap(nullptr, rounded + kHugePageBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return system_error(errno, fmt::format("cannot reserve {} bytes", rounded), "memory");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t aligned = (address + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  // NOLINTBEGIN(performance-no-int-to-ptr): aligning an address is arithmetic on it.
  if (aligned > address) ::munmap(data, aligned - address);
  const std::size_t tail = address + kHugePageBytes - aligned;
  if (tail > 0) ::munmap(reinterpret_cast<void*>(aligned + rounded), tail);
  auto* begin = reinterpret_cast<std::byte*>(aligned);
  // NOLINTEND(performance-no-int-to-ptr)
  prefer_huge_pages({begin, rounded});
  return HugeBuffer(begin, rounded, pages);
}

void prefer_huge_pages(std::span<std::byte> bytes) {
  ::madvise(bytes.data(), bytes.size(), MADV_HUGEPAGE);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept { *this = std::move(other); }

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(pages_, other.pages_);
  return *this;
}

Status HugeBuffer::lock() const {
  if (data_ == nullptr || ::mlock(data_, size_bytes_) == 0) return {};
  const int failed = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  Error error = system_error(failed,
                             fmt::format("cannot lock {} bytes (RLIMIT_MEMLOCK is {})", size_bytes_,
                                         static_cast<std::uint64_t>(limit.rlim_cur)),
                             "memory");
  error.code = Code::out_of_memory;
  return error;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

std::uint64_t HugeBuffer::huge_bytes() const {
  if (pages_ != HugePages::transparent) return size_bytes_;
  const auto begin = reinterpret_cast<std::uintptr_t>(data_);
  const std::uintptr_t end = begin + size_bytes_;
  std::ifstream file("/proc/self/smaps");
  std::uint64_t total = 0;
  bool inside = false;  // the lines being read describe a region of this buffer
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::uint64_t kib = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> from >> dash >> to && dash == '-') {
      inside = from < end && to > begin;
    } else if (inside && line.starts_with("AnonHugePages:")) {
      std::istringstream(line.substr(14)) >> kib;
      total += kib << 10;
    }
  }
  return std::min<std::uint64_t>(total, size_bytes_);
}

std::uint64_t available_memory_bytes() {
  return std::min(meminfo_available_bytes(), cgroup_available_bytes());
}

}  // namespace engram::os
