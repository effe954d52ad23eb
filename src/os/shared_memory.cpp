// Memory that has a name on this host and outlives the process that made it.
#include "os/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "os/file.hpp"
#include "os/memory.hpp"

namespace engram::os {
namespace {

constexpr const char* kDirectory = "/dev/shm";
constexpr std::size_t kNameLengthMax = 200;

Result<std::string> path_of(const std::string& name) {
  constexpr std::string_view allowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (name.empty() || name.size() > kNameLengthMax ||
      name.find_first_not_of(allowed) != std::string::npos) {
    return make_error(Code::invalid_argument,
                      "shared memory: expected a name of 1 to {} of A-Z a-z 0-9 . _ -, found '{}'",
                      kNameLengthMax, name);
  }
  return fmt::format("{}/engram-{}", kDirectory, name);
}

// Locks of an open file, which end with it: a crash releases them.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool take_lock(int descriptor) {
  struct flock lock = whole_file(F_WRLCK);
  return ::fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

// Whether the name still leads to the open file.
bool still_named(int descriptor, const std::string& path) {
  struct stat mine {};
  struct stat named {};
  return ::fstat(descriptor, &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const std::string& name, std::uint64_t size_bytes) {
  auto path = path_of(name);
  if (!path) return std::move(path).error();
  SharedMemory memory;
  memory.path_ = *std::move(path);
  memory.descriptor_ =
      ::open(memory.path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (memory.descriptor_ < 0) {
    Error error = system_error(errno, "cannot create", memory.path_);
    if (errno == EEXIST) error.code = Code::invalid_argument;
    return error;
  }
  // Between the two calls another process may have taken it for a dead one's and removed it.
  if (!take_lock(memory.descriptor_) || !still_named(memory.descriptor_, memory.path_)) {
    return make_error(Code::invalid_argument, "{}: another process is making it", memory.path_);
  }
  if (::ftruncate(memory.descriptor_, static_cast<off_t>(size_bytes)) != 0) {
    Error error = system_error(errno, "cannot set its size", memory.path_);
    ::unlink(memory.path_.c_str());
    return error;
  }
  memory.size_bytes_ = size_bytes;
  ENGRAM_TRY(memory.map(PROT_READ | PROT_WRITE));
  return memory;
}

Result<SharedMemory> SharedMemory::attach(const std::string& name) {
  auto path = path_of(name);
  if (!path) return std::move(path).error();
  SharedMemory memory;
  memory.path_ = *std::move(path);
  memory.descriptor_ = ::open(memory.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (memory.descriptor_ < 0) return system_error(errno, "cannot open", memory.path_);
  struct stat info {};
  if (::fstat(memory.descriptor_, &info) != 0) {
    return system_error(errno, "cannot stat", memory.path_);
  }
  // Anyone may write to /dev/shm; whoever owns the file can change it under us.
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return make_error(Code::corrupt, "{}: expected user {} or root to own it, found user {}",
                      memory.path_, ::geteuid(), info.st_uid);
  }
  memory.size_bytes_ = static_cast<std::size_t>(info.st_size);
  if (memory.size_bytes_ != 0) ENGRAM_TRY(memory.map(PROT_READ));
  return memory;
}

Status SharedMemory::map(int protection) {
  void* data = ::mmap(nullptr, size_bytes_, protection, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED) return system_error(errno, "cannot map", path_);
  data_ = static_cast<std::byte*>(data);
  prefer_huge_pages(bytes());
  return {};
}

Status SharedMemory::remove(const std::string& name) {
  const auto path = path_of(name);
  if (!path) return path.error();
  const int descriptor = ::open(path->c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) return system_error(errno, "cannot open", *path);
  Status status;
  if (!take_lock(descriptor)) {
    status = make_error(Code::unavailable, "{}: a process is filling it", *path);
  } else if (still_named(descriptor, *path) && ::unlink(path->c_str()) != 0) {
    status = system_error(errno, "cannot remove", *path);
  }
  ::close(descriptor);
  return status;
}

Result<std::uint64_t> SharedMemory::free_bytes() { return free_disk_bytes(kDirectory); }

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status SharedMemory::reserve(std::uint64_t offset, std::uint64_t size_bytes) const {
  for (;;) {
    if (::fallocate(descriptor_, 0, static_cast<off_t>(offset), static_cast<off_t>(size_bytes)) ==
        0) {
      return {};
    }
    if (errno == EINTR) continue;
    Error error =
        system_error(errno, fmt::format("cannot take {} bytes at {}", size_bytes, offset), path_);
    if (errno == ENOSPC || errno == ENOMEM) error.code = Code::out_of_memory;
    return error;
  }
}

bool SharedMemory::being_made() const {
  struct flock lock = whole_file(F_RDLCK);
  return ::fcntl(descriptor_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace engram::os
