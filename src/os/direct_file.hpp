// A file whose blocks are read past the page cache, and noticed when it changes underneath.
#pragma once

#include <cstdint>
#include <string>

#include "engram/status.hpp"

namespace engram::os {

// Movable. Any number of threads may use one.
class DirectFile {
 public:
  // With O_DIRECT where the file system has it (tmpfs, overlays and others may not: then reads go
  // through the page cache, and are right all the same).
  static Result<DirectFile> open(const std::string& path);
  DirectFile(DirectFile&& other) noexcept;
  DirectFile& operator=(DirectFile&&) = delete;
  ~DirectFile();

  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  // For direct reads, where the file system has them.
  int descriptor() const { return direct_ >= 0 ? direct_ : buffered_; }
  // For reads through the page cache.
  int buffered_descriptor() const { return buffered_; }
  // Of no other file in this process, ever: descriptors are used again, this is not.
  std::uint64_t serial() const { return serial_; }
  // What offsets, sizes and addresses of reads must be multiples of: 512 to 4096.
  std::uint32_t alignment() const { return alignment_; }

  // Code::corrupt where the file shrank or was written to since it was opened, or another file has
  // taken its name. Two system calls.
  Status check_unchanged() const;

 private:
  explicit DirectFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::string absolute_path_;  // for a process that changes its directory
  int buffered_ = -1;
  int direct_ = -1;
  std::uint64_t serial_ = 0;
  std::uint32_t alignment_ = 4096;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  std::int64_t modified_ns_ = 0;
};

}  // namespace engram::os
