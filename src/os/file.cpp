// Files: positioned reads through one interface (the fault seam), whole-file writes, directories.
#include "os/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.hpp"

namespace engram::os {
namespace {

namespace fs = std::filesystem;

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

WritableFile::WritableFile(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

WritableFile::WritableFile(WritableFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      position_(other.position_),
      path_(std::move(other.path_)) {}

WritableFile::~WritableFile() {
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

Status WritableFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t want = std::min(bytes.size() - done, kTransferBytesMax);
    const ssize_t put =
        ::pwrite(descriptor_, bytes.data() + done, want, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error(errno, "write failed", path_);
    done += static_cast<std::size_t>(put);
  }
  return {};
}

Status WritableFile::resize(std::uint64_t size_bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size_bytes)) != 0) {
    return system_error(errno, "cannot resize", path_);
  }
  return {};
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

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_empty_directory(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code) && fs::is_empty(path, code) && !code;
}

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

Result<std::vector<std::string>> list_files(const std::string& directory) {
  std::error_code code;
  std::vector<std::string> names;
  fs::directory_iterator iterator(directory, code);
  for (; !code && iterator != fs::directory_iterator(); iterator.increment(code)) {
    std::error_code ignored;  // a dangling link is not a file of this directory
    if (iterator->is_regular_file(ignored)) names.push_back(iterator->path().filename().string());
  }
  if (code) return system_error(code.value(), "cannot list", directory);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<std::string>> list_tree(const std::string& directory) {
  constexpr int kDepthMax = 8;
  std::error_code code;
  std::vector<std::string> names;
  fs::recursive_directory_iterator iterator(directory, code);
  for (; !code && iterator != fs::recursive_directory_iterator(); iterator.increment(code)) {
    if (iterator.depth() >= kDepthMax) iterator.disable_recursion_pending();
    std::error_code ignored;
    if (iterator->is_regular_file(ignored)) {
      names.push_back(iterator->path().lexically_relative(directory).string());
    }
  }
  if (code) return system_error(code.value(), "cannot list", directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::string link_target_name(const std::string& path) {
  std::error_code code;
  const fs::path target = fs::read_symlink(path, code);
  return code ? std::string() : target.filename().string();
}

Status rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return system_error(errno, "cannot rename onto", to);
  return {};
}

Result<std::string> create_unique_directory(const std::string& prefix) {
  std::string path = prefix + std::string(6, 'X');  // what mkdtemp replaces
  if (::mkdtemp(path.data()) == nullptr) {
    return system_error(errno, "cannot create directory", path);
  }
  // mkdtemp makes it private; a published directory takes the process's ordinary permissions.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::chmod(path.c_str(), 0777 & ~mask) != 0) return system_error(errno, "chmod failed", path);
  return path;
}

Status rename_directory(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return system_error(errno, "cannot rename onto", to);
  return {};
}

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0 || (errno == EEXIST && is_directory(path))) return {};
  return system_error(errno, "cannot create directory", path);
}

Status sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return system_error(errno, "cannot open", path);
  const int saved = ::fsync(descriptor) != 0 ? errno : 0;
  ::close(descriptor);
  // Some file systems cannot sync a directory; their renames are as durable as they get.
  if (saved != 0 && saved != EINVAL) return system_error(saved, "cannot sync", path);
  return {};
}

void remove_file(const std::string& path) { ::unlink(path.c_str()); }

Result<std::uint64_t> free_disk_bytes(const std::string& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return system_error(errno, "cannot ask", path);
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

std::uint64_t disk_usage_bytes(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

std::int64_t modified_ns(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::string temporary_directory() {
  std::error_code code;
  const fs::path path = fs::temp_directory_path(code);
  return code ? std::string("/tmp") : path.string();
}

}  // namespace engram::os
