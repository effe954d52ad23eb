// Follows one read through short results, interruptions and its end.
#pragma once

#include <cstdint>

#include "engram/status.hpp"

#include "os/block_reader.hpp"

namespace engram::os {

class ReadResult {
 public:
  ReadResult() = default;
  explicit ReadResult(const BlockRead& read) : read_(read) {}

  // Where the next attempt begins, relative to the read, and how long it is.
  std::uint32_t begin() const { return begin_; }
  std::uint32_t left() const { return read_.size - begin_; }
  bool done() const { return done_; }
  // Bytes that are there; at least those needed, once done.
  std::uint32_t bytes() const { return bytes_; }
  const BlockRead& read() const { return read_; }

  // An attempt's result: bytes, or minus an errno. Success without done() asks for another attempt.
  Status add(int result);

 private:
  static constexpr int kTriesMax = 64;
  BlockRead read_;
  std::uint32_t begin_ = 0;
  std::uint32_t bytes_ = 0;
  int tries_ = 0;
  bool done_ = false;
};

}  // namespace engram::os
