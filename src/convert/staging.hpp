// A directory that is made beside its final name and only ever seen there complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engram/status.hpp"

#include "os/file.hpp"

namespace engram {

// DIR.partial, held under the lock DIR.lock. A killed process leaves DIR.partial behind: the next
// begin() removes it, or goes on with it. Movable.
class StagedDirectory {
 public:
  // `resume`: keep what a killed process left. Code::unavailable where another job holds the lock;
  // Code::invalid_argument where the destination exists and is not empty, or there is nothing to
  // resume.
  static Result<StagedDirectory> begin(const std::string& destination, bool resume);

  // DIR.partial/NAME
  std::string path(const std::string& name) const { return partial_ + "/" + name; }
  bool resumes() const { return resumes_; }

  // Code::io unless the file system has room for `bytes` beside what is already there.
  Status check_room(std::uint64_t bytes) const;

  // Renames DIR.partial to DIR, durably, and lets go of the lock.
  Status publish();

 private:
  StagedDirectory(std::string destination, os::FileLock lock, bool resumes);
  std::string destination_;
  std::string partial_;
  std::optional<os::FileLock> lock_;
  bool resumes_;
};

}  // namespace engram
