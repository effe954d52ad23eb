// Writes one planned file: makes its units in parallel, hashes in the same pass, keeps a journal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engram/status.hpp"

#include "convert/journal.hpp"
#include "convert/output_file.hpp"

namespace engram {

struct FileJob {
  const OutputFile& file;
  std::size_t index;  // of the file in the journal
  std::string path;
  int threads;
  std::function<void(std::uint64_t bytes)> wrote;  // called with each stretch's size
};

// Returns the file's SHA-256. Where the journal has part of the file already, goes on from there.
// The header goes in last: before that the file begins with zeros, which no reader accepts.
// Memory: at most 256 MiB, whatever the file and the number of threads.
Result<std::string> write_file(const FileJob& job, Journal& journal);

}  // namespace engram
