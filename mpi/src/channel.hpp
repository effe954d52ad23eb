// A duplicated communicator whose calls report errors, wait with a deadline, and never hang.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engram/status.hpp"

namespace engram::mpi {

// Memory of messages, used again: fresh pages cost more than the bytes that go through them.
using Buffer = std::unique_ptr<std::vector<std::byte>>;
class Buffers {
 public:
  // Of this size; its contents are whatever was there.
  Buffer take(std::size_t bytes);
  void put(Buffer buffer);

 private:
  std::vector<Buffer> idle_;
};

// One operation under way and the memory that MPI may touch until it is over. What is destroyed
// before that is given to the process for good: MPI cannot be made to let go of it.
class Transfer {
 public:
  Transfer() = default;
  explicit Transfer(Buffer bytes) : bytes_(std::move(bytes)) {}
  Transfer(Transfer&& other) noexcept;
  Transfer& operator=(Transfer&& other) noexcept;
  ~Transfer();

  bool pending() const { return request_ != MPI_REQUEST_NULL; }
  std::vector<std::byte>& bytes() { return *bytes_; }
  // Requires that it is over, or was never begun.
  Buffer release() { return std::move(bytes_); }

 private:
  friend class Channel;
  Buffer bytes_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// One thread at a time.
class Channel {
 public:
  // Collective over `comm`.
  static Result<std::unique_ptr<Channel>> duplicate(MPI_Comm comm,
                                                    std::chrono::milliseconds timeout);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Code::unavailable once MPI is finalised, when every call of it would abort the process.
  Status usable() const;

  // transfer.bytes() to or from a rank. Require that the transfer is not pending.
  Status send(int rank, int tag, Transfer& transfer);
  Status receive(int rank, int tag, Transfer& transfer);
  // Whether the transfer is over; moves MPI on.
  Result<bool> done(Transfer& transfer);
  // A message with this tag from anyone, if one is there.
  struct Message {
    int rank = 0;
    Buffer bytes;
  };
  Result<std::optional<Message>> poll(int tag, Buffers& buffers);

  // `bytes`, of any length, from every rank to every rank.
  Result<std::vector<std::vector<std::byte>>> gather(std::span<const std::byte> bytes);
  // Bitwise OR over all ranks, in place. Every rank brings as many bytes.
  Status combine(std::vector<std::byte>& bytes);

  // Calls `step`, which moves things on and says whether all is done, until it is; gives the
  // processor away in between. Code::unavailable, with `what`, after the timeout.
  template <typename Step>
  Status wait(const char* what, Step step);

 private:
  Channel() = default;
  Status timed_out(const char* what) const;
  Status wait_for(const char* what, Transfer& transfer);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int world_ = 1;
  std::chrono::milliseconds timeout_{0};
  bool broken_ = false;  // an operation was given up
};

// Gives other processes the processor: at once a few times, then asleep for a little.
class Patience {
 public:
  void pause();

 private:
  int pauses_ = 0;
};

template <typename Step>
Status Channel::wait(const char* what, Step step) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  Patience patience;
  while (true) {
    const Result<bool> all = step();
    if (!all) return all.error();
    if (*all) return {};
    if (std::chrono::steady_clock::now() > deadline) {
      broken_ = true;
      return timed_out(what);
    }
    patience.pause();
  }
}

}  // namespace engram::mpi
