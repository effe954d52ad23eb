// Files: positioned reads through one interface (the fault seam), writes, locks.
#include "os/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"

namespace engram::os {
namespace {

// Linux transfers at most this much per call (see read(2)); staying below keeps counts positive.
constexpr std::size_t kTransferBytesMax = std::size_t{1} << 30;

class PosixFile final : public ReadableFile {
 public:
  PosixFile(int descriptor, std::uint64_t size_bytes, std::string path)
      : descriptor_(descriptor), size_bytes_(size_bytes), path_(std::move(path)) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override { ::close(descriptor_); }

  std::uint64_t size_bytes() const override { return size_bytes_; }
  const std::string& path() const override { return path_; }

  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    std::size_t done = 0;
    while (done < out.size()) {
      const std::size_t want = std::min(out.size() - done, kTransferBytesMax);
      const ssize_t got =
          ::pread(descriptor_, out.data() + done, want, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error(errno, "read failed", path_);
      if (got == 0) {
        return make_error(
            Code::corrupt,
            "{}: truncated: expected {} bytes at offset {}, found {} (file size was {})", path_,
            out.size(), offset, done, size_bytes_);
      }
      done += static_cast<std::size_t>(got);
    }
    return {};
  }

 private:
  int descriptor_;
  std::uint64_t size_bytes_;
  std::string path_;
};

class ConcatenatedFile final : public ReadableFile {
 public:
  explicit ConcatenatedFile(std::vector<std::unique_ptr<ReadableFile>> parts)
      : parts_(std::move(parts)) {
    for (const auto& part : parts_) size_bytes_ += part->size_bytes();
  }

  std::uint64_t size_bytes() const override { return size_bytes_; }
  const std::string& path() const override { return parts_.front()->path(); }

  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    for (const auto& part : parts_) {
      const std::uint64_t size = part->size_bytes();
      if (offset >= size) {
        offset -= size;
        continue;
      }
      const auto here =
          static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size - offset));
      ENGRAM_TRY(part->read_at(offset, out.first(here)));
      out = out.subspan(here);
      offset = 0;
      if (out.empty()) return {};
    }
    if (out.empty()) return {};
    return make_error(Code::corrupt, "{}: truncated: {} bytes lie beyond the end of {} parts",
                      path(), out.size(), parts_.size());
  }

 private:
  std::vector<std::unique_ptr<ReadableFile>> parts_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<ReadableFile>> open_files(std::span<const std::string> paths) {
  if (paths.size() == 1) return open_file(paths.front());
  std::vector<std::unique_ptr<ReadableFile>> parts;
  for (const std::string& path : paths) {
    auto part = open_file(path);
    if (!part) return part;
    parts.push_back(*std::move(part));
  }
  return std::unique_ptr<ReadableFile>(std::make_unique<ConcatenatedFile>(std::move(parts)));
}

Result<std::unique_ptr<ReadableFile>> open_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_error(errno, "cannot open", path);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) {
    const int saved = errno;
    ::close(descriptor);
    return system_error(saved, "cannot stat", path);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return make_error(Code::invalid_argument, "{}: expected a file, found something else", path);
  }
  return std::unique_ptr<ReadableFile>(
      std::make_unique<PosixFile>(descriptor, static_cast<std::uint64_t>(info.st_size), path));
}

Result<std::string> read_text_file(const std::string& path, std::uint64_t size_limit_bytes) {
  auto file = open_file(path);
  if (!file) return std::move(file).error();
  const std::uint64_t size_bytes = (*file)->size_bytes();
  if (size_bytes > size_limit_bytes) {
    return make_error(Code::unsupported,
                      "{}: {} bytes, more than the {} this kind of file may have", path, size_bytes,
                      size_limit_bytes);
  }
  std::string text(size_bytes, '\0');
  ENGRAM_TRY((*file)->read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::vector<std::int32_t>> read_int32_file(const std::string& path,
                                                  std::uint64_t size_limit_bytes,
                                                  std::string_view what) {
  const auto bytes = read_text_file(path, size_limit_bytes);
  if (!bytes) return bytes.error();
  if (bytes->size() % sizeof(std::int32_t) != 0) {
    return make_error(Code::corrupt, "{}: {}: expected a multiple of 4 bytes, found {}", path, what,
                      bytes->size());
  }
  std::vector<std::int32_t> numbers(bytes->size() / sizeof(std::int32_t));
  std::copy_n(std::as_bytes(std::span(*bytes)).begin(), bytes->size(),
              std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

WritableFile::WritableFile(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

WritableFile::WritableFile(WritableFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(std::exchange(other.direct_, -1)),
      position_(other.position_),
      path_(std::move(other.path_)) {}

WritableFile::~WritableFile() {
  if (direct_ >= 0) ::close(direct_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<WritableFile> WritableFile::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0 && errno == EEXIST) {
    return make_error(Code::invalid_argument, "{}: exists; refusing to overwrite it", path);
  }
  if (descriptor < 0) return system_error(errno, "cannot create", path);
  return WritableFile(descriptor, path);
}

Result<WritableFile> WritableFile::open_existing(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return system_error(errno, "cannot open", path);
  WritableFile file(descriptor, path);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error(errno, "cannot stat", path);
  file.position_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status WritableFile::append(std::span<const std::byte> bytes) {
  ENGRAM_TRY(write_at(position_, bytes));
  position_ += bytes.size();
  return {};
}

void WritableFile::prefer_direct() {
  if (direct_ < 0) direct_ = ::open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
}

Status WritableFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kWorthwhile = 16 * kBlock;
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (direct_ < 0 || bytes.size() < kWorthwhile || address % kBlock != offset % kBlock) {
    return write_with(descriptor_, offset, bytes);
  }
  // Whole blocks directly; the edges, which blocks of other stretches share, through the page
  // cache.
  const std::size_t head = (kBlock - offset % kBlock) % kBlock;
  const std::size_t middle = (bytes.size() - head) / kBlock * kBlock;
  ENGRAM_TRY(write_with(descriptor_, offset, bytes.first(head)));
  Status direct = write_with(direct_, offset + head, bytes.subspan(head, middle));
  if (!direct && direct.error().os_errno != EINVAL) return direct;
  if (!direct) ENGRAM_TRY(write_with(descriptor_, offset + head, bytes.subspan(head, middle)));
  return write_with(descriptor_, offset + head + middle, bytes.subspan(head + middle));
}

Status WritableFile::write_with(int descriptor, std::uint64_t offset,
                                std::span<const std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t want = std::min(bytes.size() - done, kTransferBytesMax);
    const ssize_t put =
        ::pwrite(descriptor, bytes.data() + done, want, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(errno, "write failed", path_);
    done += static_cast<std::size_t>(put);
  }
  return {};
}

Status WritableFile::allocate(std::uint64_t size_bytes) {
  if (::fallocate(descriptor_, 0, 0, static_cast<off_t>(size_bytes)) == 0) return {};
  if (errno != EOPNOTSUPP) return system_error(errno, "cannot allocate", path_);
  return resize(size_bytes);
}

Status WritableFile::resize(std::uint64_t size_bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size_bytes)) != 0) {
    return system_error(errno, "cannot resize", path_);
  }
  return {};
}

void WritableFile::start_writing(std::uint64_t offset, std::uint64_t size_bytes) {
  ::sync_file_range(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(size_bytes),
                    SYNC_FILE_RANGE_WRITE);
}

Status WritableFile::sync() {
  if (::fdatasync(descriptor_) != 0) return system_error(errno, "cannot sync", path_);
  return {};
}

Status WritableFile::sync_and_close() {
  const int descriptor = std::exchange(descriptor_, -1);
  const int sync_errno = ::fsync(descriptor) != 0 ? errno : 0;
  const int close_errno = ::close(descriptor) != 0 ? errno : 0;
  if (sync_errno != 0) return system_error(sync_errno, "cannot sync", path_);
  if (close_errno != 0) return system_error(close_errno, "cannot close", path_);
  return {};
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<FileLock> FileLock::acquire(const std::string& path) {
  FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock.descriptor_ < 0) return system_error(errno, "cannot create", path);
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return system_error(errno, "cannot lock", path);
  return make_error(Code::unavailable, "{}: another process holds this lock", path);
}

Status write_text_file(const std::string& path, std::string_view text) {
  auto file = WritableFile::create(path);
  if (!file) return std::move(file).error();
  ENGRAM_TRY(file->append(std::as_bytes(std::span(text))));
  return file->sync_and_close();
}

}  // namespace engram::os
