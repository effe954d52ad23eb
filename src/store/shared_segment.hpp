// The head of shared memory: what it holds, and whether it is whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engram/row_store.hpp"

#include "os/shared_memory.hpp"

namespace engram {

// Tables follow the head, each at a multiple of 2 MiB: rows as tier ram has them.
class SharedSegment {
 public:
  // Lays the tables out in new memory of this name; not ready yet. A segment that a dead process
  // left unfinished is replaced.
  static Result<SharedSegment> create(std::span<const TableSource> sources,
                                      const std::string& name);
  // A ready one, waited for.
  static Result<SharedSegment> attach(const SharedOptions& options);

  const std::string& path() const { return memory_.path(); }
  const os::SharedMemory& memory() const { return memory_; }
  // The rows of a table, [held rows, row_bytes]. Code::corrupt where they are not the source's.
  Result<std::span<std::byte>> rows(const TableSource& source) const;
  // Lets others attach. Everything written before is seen by them.
  void set_ready();

 private:
  explicit SharedSegment(os::SharedMemory memory) : memory_(std::move(memory)) {}
  Status check() const;
  os::SharedMemory memory_;
};

}  // namespace engram
