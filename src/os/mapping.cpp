// Files mapped read-only.
#include "os/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"

namespace engram::os {
namespace {

constexpr std::size_t kPageBytes = 4096;

}  // namespace

// Adds a file at the end; nothing is mapped yet.
Status Mapping::open(const std::string& path) {
  if (size_bytes_ % kPageBytes != 0) {
    return make_error(Code::unsupported,
                      "{}: begins at byte {} of its file, not at a page: it cannot be mapped; "
                      "tier ram reads it",
                      path, size_bytes_);
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_error(errno, "cannot open", path);
  files_.push_back({descriptor, size_bytes_, 0});
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error(errno, "cannot stat", path);
  if (info.st_size == 0) return make_error(Code::corrupt, "{}: truncated: the file is empty", path);
  files_.back().size_bytes = static_cast<std::uint64_t>(info.st_size);
  size_bytes_ += files_.back().size_bytes;
  return {};
}

Result<Mapping> Mapping::open_random(std::span<const std::string> paths) {
  Mapping mapping;
  for (const std::string& path : paths) ENGRAM_TRY(mapping.open(path));
  void* data = ::mmap(nullptr, mapping.size_bytes_, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return system_error(errno, "cannot map", paths.front());
  auto* bytes = static_cast<std::byte*>(data);
  mapping.data_ = bytes;
  for (const File& file : mapping.files_) {
    if (::mmap(bytes + file.begin, file.size_bytes, PROT_READ, MAP_SHARED | MAP_FIXED,
               file.descriptor, 0) == MAP_FAILED) {
      return system_error(errno, "cannot map", paths.front());
    }
  }
  // Advice only: a kernel that refuses it still serves right bytes.
  ::madvise(data, mapping.size_bytes_, MADV_RANDOM);
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(files_, other.files_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
  for (const File& file : files_) ::close(file.descriptor);
}

void Mapping::will_need(std::uint64_t offset, std::size_t size) const {
  // Through the descriptor: the same advice on the address takes twice as long.
  for (const File& file : files_) {
    const std::uint64_t begin = std::max(offset, file.begin);
    const std::uint64_t end = std::min(offset + size, file.begin + file.size_bytes);
    if (begin >= end) continue;
    ::posix_fadvise(file.descriptor, static_cast<off_t>(begin - file.begin),
                    static_cast<off_t>(end - begin), POSIX_FADV_WILLNEED);
  }
}

std::size_t Mapping::resident_pages(std::size_t samples) const {
  const std::size_t pages = (size_bytes_ + kPageBytes - 1) / kPageBytes;
  std::size_t resident = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t page = pages * i / samples;
    unsigned char state = 0;
    auto* address = const_cast<std::byte*>(data_) + page * kPageBytes;
    if (::mincore(address, 1, &state) == 0) resident += state & 1;
  }
  return resident;
}

}  // namespace engram::os
