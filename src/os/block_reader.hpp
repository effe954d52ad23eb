// Many small reads at once: io_uring, or what a system without it has.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engram/status.hpp"
#include "engram/types.hpp"

#include "os/direct_file.hpp"

namespace engram::os {

// The longest read.
inline constexpr std::uint32_t kBlockReadBytesMax = 16384;

// Bytes [offset, offset + size) of a file, aligned as it wants. The file may end inside; `needed`
// bytes must be there.
struct BlockRead {
  const DirectFile* file = nullptr;
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
  std::uint32_t needed = 0;
};

// Takes what was read.
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  // `bytes` are gone when this returns. Called in any order, from the thread that reads.
  virtual Status take(std::size_t read, std::span<const std::byte> bytes) = 0;
};

// One thread and one set of reads at a time; allocates nothing after it was made.
class BlockReader {
 public:
  virtual ~BlockReader() = default;
  virtual ReadMethod method() const = 0;

  // Takes on all reads, each to go to the sink, and waits for none; of Priority::now nothing need
  // happen before finish. Both arguments stay until finish or cancel returns.
  virtual void begin(std::span<const BlockRead> reads, BlockSink& sink, Priority priority) = 0;
  // Takes what has come and asks for more of what is left, without waiting. True when finish would
  // not wait either.
  virtual bool poll() = 0;
  // Waits for the end of all reads. Short reads are completed, interrupted ones repeated. The first
  // failure is returned after what was begun has ended: Code::corrupt for a file that ends too
  // soon, Code::io for anything else, with the offset.
  virtual Status finish() = 0;
  // Forgets what was not begun and waits for the rest; its bytes go nowhere.
  virtual void cancel() = 0;
};

// ReadMethod::automatic tries io_uring and settles for readahead where it is not allowed
// (containers often forbid it). Code::unavailable where a method that was asked for is not.
Result<std::unique_ptr<BlockReader>> make_block_reader(ReadMethod method);

// Tests only: sees the result of every read of every method (bytes, or minus an errno) and returns
// the one to act on. Null: none.
using ReadFault = int (*)(std::uint64_t offset, int result);
void set_read_fault(ReadFault fault);
int with_read_fault(std::uint64_t offset, int result);
// The same for setting up a ring: an errno to fail with, or 0.
void set_ring_fault(int os_errno);
int ring_fault();

}  // namespace engram::os
