// A file whose blocks are read past the page cache, and noticed when it changes underneath.
#include "os/direct_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/error.hpp"

namespace engram::os {
namespace {

constexpr std::uint32_t kAlignmentMin = 512;
constexpr std::uint32_t kAlignmentMax = 4096;

std::int64_t nanoseconds(const struct timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// The device's own logical block, where the kernel tells (6.1 and later) or a read of one works.
std::uint32_t find_alignment(int descriptor, std::uint64_t size_bytes) {
  if (size_bytes < kAlignmentMax) return kAlignmentMax;
  alignas(kAlignmentMax) static thread_local std::byte block[kAlignmentMin];
  const ssize_t got = ::pread(descriptor, block, kAlignmentMin, kAlignmentMin);
  return got == static_cast<ssize_t>(kAlignmentMin) ? kAlignmentMin : kAlignmentMax;
}

}  // namespace

DirectFile::DirectFile(DirectFile&& other) noexcept
    : path_(std::move(other.path_)),
      absolute_path_(std::move(other.absolute_path_)),
      buffered_(std::exchange(other.buffered_, -1)),
      direct_(std::exchange(other.direct_, -1)),
      serial_(other.serial_),
      alignment_(other.alignment_),
      size_bytes_(other.size_bytes_),
      device_(other.device_),
      inode_(other.inode_),
      modified_ns_(other.modified_ns_) {}

DirectFile::~DirectFile() {
  if (buffered_ >= 0) ::close(buffered_);
  if (direct_ >= 0) ::close(direct_);
}

Result<DirectFile> DirectFile::open(const std::string& path) {
  static std::atomic<std::uint64_t> next_serial{1};
  DirectFile file(path);
  file.serial_ = next_serial.fetch_add(1);
  std::error_code ignored;
  file.absolute_path_ = std::filesystem::absolute(path, ignored).string();
  file.buffered_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.buffered_ < 0) return system_error(errno, "cannot open", path);
  struct stat info {};
  if (::fstat(file.buffered_, &info) != 0) return system_error(errno, "cannot stat", path);
  if (!S_ISREG(info.st_mode)) {
    return make_error(Code::invalid_argument, "{}: expected a file, found something else", path);
  }
  file.size_bytes_ = static_cast<std::uint64_t>(info.st_size);
  file.device_ = info.st_dev;
  file.inode_ = info.st_ino;
  file.modified_ns_ = nanoseconds(info.st_mtim);
  file.direct_ = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (file.direct_ >= 0) file.alignment_ = find_alignment(file.direct_, file.size_bytes_);
  return file;
}

Status DirectFile::check_unchanged() const {
  struct stat info {};
  if (::fstat(buffered_, &info) != 0) return system_error(errno, "cannot stat", path_);
  if (static_cast<std::uint64_t>(info.st_size) != size_bytes_) {
    return make_error(Code::corrupt, "{}: changed while open: expected {} bytes, found {}", path_,
                      size_bytes_, info.st_size);
  }
  if (nanoseconds(info.st_mtim) != modified_ns_) {
    return make_error(Code::corrupt, "{}: written to while open", path_);
  }
  // A name that is gone takes nothing away from an open file; another file under it does.
  if (::stat(absolute_path_.c_str(), &info) != 0) return {};
  if (info.st_dev == device_ && info.st_ino == inode_) return {};
  return make_error(Code::corrupt, "{}: replaced by another file while open", path_);
}

}  // namespace engram::os
