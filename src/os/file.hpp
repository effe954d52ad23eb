// Files: positioned reads through one interface (the fault seam), whole-file writes, directories.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engram/status.hpp"

namespace engram::os {

// A file open for reading. Concurrent calls are safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  // The size when the file was opened.
  virtual std::uint64_t size_bytes() const = 0;
  virtual const std::string& path() const = 0;

  // Fills `out` from `offset`, or fails: Code::corrupt where the file ends first (it says how many
  // bytes were expected and found), Code::io where the system refuses. Never a short success.
  virtual Status read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

// Follows symbolic links. Code::not_found, Code::io; a directory is Code::invalid_argument.
Result<std::unique_ptr<ReadableFile>> open_file(const std::string& path);
// Several files read as one, end to end; the path of the result is the first's. Requires one path
// at least.
Result<std::unique_ptr<ReadableFile>> open_files(std::span<const std::string> paths);

// The whole file as text; more than `size_limit_bytes` is Code::unsupported before any allocation.
Result<std::string> read_text_file(const std::string& path, std::uint64_t size_limit_bytes);

// A file of int32 little endian and nothing else; `what` names it in the message.
Result<std::vector<std::int32_t>> read_int32_file(const std::string& path,
                                                  std::uint64_t size_limit_bytes,
                                                  std::string_view what);

// A file written front to back or at chosen offsets. Concurrent calls of write_at are safe; nothing
// else is.
class WritableFile {
 public:
  // Fails with Code::invalid_argument if the path exists.
  static Result<WritableFile> create(const std::string& path);
  // Writes of large stretches whose address in memory is their offset modulo 4096 go past the page
  // cache from here on, where the file system can do that.
  void prefer_direct();
  // Goes on with a file that exists; append begins at its end.
  static Result<WritableFile> open_existing(const std::string& path);
  WritableFile(WritableFile&& other) noexcept;
  WritableFile& operator=(WritableFile&&) = delete;
  ~WritableFile();

  Status append(std::span<const std::byte> bytes);
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Sets the size; new bytes are a hole that reads as zeros.
  Status resize(std::uint64_t size_bytes);
  // The same, with blocks for every byte set aside where the file system can do that.
  Status allocate(std::uint64_t size_bytes);
  // Lets the device begin with bytes that were written; does not wait. Advice only.
  void start_writing(std::uint64_t offset, std::uint64_t size_bytes);
  // Forces the bytes to the device.
  Status sync();
  // The same, and closes. Without it the destructor closes silently.
  Status sync_and_close();

 private:
  WritableFile(int descriptor, std::string path);
  Status write_with(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) const;
  int descriptor_;
  int direct_ = -1;  // the same file with O_DIRECT, or -1
  std::uint64_t position_ = 0;
  std::string path_;
};

// The only holder of a lock file, until destroyed. Movable.
class FileLock {
 public:
  // Creates the file where it is not there. Code::unavailable at once where another process holds
  // it.
  static Result<FileLock> acquire(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// A new file of this text, synced.
Status write_text_file(const std::string& path, std::string_view text);

bool is_directory(const std::string& path);
bool is_empty_directory(const std::string& path);
bool path_exists(const std::string& path);
// Names of plain files (links followed) in a directory, sorted.
Result<std::vector<std::string>> list_files(const std::string& directory);
// The same of a directory and everything below it, paths relative to it, at most 8 levels deep.
Result<std::vector<std::string>> list_tree(const std::string& directory);
// The last part of a symbolic link's target; empty where the path is no link.
std::string link_target_name(const std::string& path);
// Renames a file, over another where there is one.
Status rename_file(const std::string& from, const std::string& to);
// A new, empty, uniquely named directory whose name begins with `prefix`.
Result<std::string> create_unique_directory(const std::string& prefix);
// Renames a directory onto a path that does not exist yet or is an empty directory.
Status rename_directory(const std::string& from, const std::string& to);
// Makes a directory; one that is there already is fine.
Status make_directory(const std::string& path);
// Makes what was created, renamed or removed in a directory durable.
Status sync_directory(const std::string& path);
void remove_file(const std::string& path);
// Bytes that an unprivileged process may still write to the file system of `path`.
Result<std::uint64_t> free_disk_bytes(const std::string& path);
// Whether the file system of `path` lives in memory (tmpfs, ramfs).
bool is_memory_file(const std::string& path);
// Writes a file's changed pages out and lets the page cache forget it. Advice only.
Status forget_cached(const std::string& path);
// Bytes a file takes on its device: less than its size where it has holes. 0 where it is not there.
std::uint64_t disk_usage_bytes(const std::string& path);
// Nanoseconds since the epoch of a file's last change; 0 where it is not there.
std::int64_t modified_ns(const std::string& path);
// Removes a directory and everything in it, best effort.
void remove_tree(const std::string& path);
// The system's directory for temporary files.
std::string temporary_directory();

}  // namespace engram::os
