// How far a conversion has come, on disk: what `resume` goes on from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engram/status.hpp"

#include "os/file.hpp"

namespace engram {

// Lines of text: the first binds the journal to one plan (a digest of source, options and files);
// then, each line synced before the next begins:
//   at FILE STREAM UNITS    the first UNITS units of a stream are on the device
//   done FILE SHA256        the file is complete
// A last line cut short by a crash is ignored.
class Journal {
 public:
  // Begins a new journal at `path`.
  static Result<Journal> create(const std::string& path, const std::string& plan);
  // Goes on with one. Code::invalid_argument where it belongs to another plan.
  static Result<Journal> resume(const std::string& path, const std::string& plan);

  // Units of a stream that need not be made again.
  std::uint64_t units_done(std::size_t file, std::size_t stream) const;
  // The digest of a file that is complete.
  std::optional<std::string> digest(std::size_t file) const;

  Status record_units(std::size_t file, std::size_t stream, std::uint64_t units);
  Status record_done(std::size_t file, const std::string& sha256);

 private:
  explicit Journal(os::WritableFile file) : file_(std::move(file)) {}
  Status append(const std::string& line);
  Status parse(const std::string& text, const std::string& path, const std::string& plan);

  os::WritableFile file_;
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> units_;
  std::map<std::size_t, std::string> digests_;
};

}  // namespace engram
