// Directories and names: what is there, room, renames.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "os/file.hpp"

namespace engram::os {

namespace fs = std::filesystem;

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

bool is_memory_file(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return false;
  return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC;
}

Status forget_cached(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_error(errno, "cannot open", path);
  ::fdatasync(descriptor);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
  return {};
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
