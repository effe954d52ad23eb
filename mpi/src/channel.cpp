// A duplicated communicator whose calls report errors, wait with a deadline, and never hang.
#include "channel.hpp"

#include <climits>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

namespace engram::mpi {
namespace {

Status check(int result, const char* what) {
  if (result == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  return Error{
      Code::unavailable, 0,
      std::string("MPI: ") + what + ": " + std::string(text, static_cast<std::size_t>(length))};
}

// MPI counts in int.
Result<int> count_of(const std::vector<std::byte>& bytes) {
  if (bytes.size() > INT_MAX) {
    return Error{
        Code::unsupported, 0,
        "MPI: a message of " + std::to_string(bytes.size()) + " bytes; look up fewer rows at once"};
  }
  return static_cast<int>(bytes.size());
}

bool finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

}  // namespace

// The smallest that is large enough, or the largest to be made larger.
Buffer Buffers::take(std::size_t bytes) {
  if (idle_.empty()) return std::make_unique<std::vector<std::byte>>(bytes);
  std::size_t best = 0;
  for (std::size_t i = 1; i < idle_.size(); ++i) {
    const std::size_t have = idle_[best]->capacity();
    const std::size_t other = idle_[i]->capacity();
    if (have < bytes ? other > have : other >= bytes && other < have) best = i;
  }
  Buffer buffer = std::move(idle_[best]);
  idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(best));
  buffer->resize(bytes);
  return buffer;
}

void Buffers::put(Buffer buffer) {
  if (buffer != nullptr) idle_.push_back(std::move(buffer));
}

Transfer::Transfer(Transfer&& other) noexcept
    : bytes_(std::move(other.bytes_)), request_(std::exchange(other.request_, MPI_REQUEST_NULL)) {}

Transfer& Transfer::operator=(Transfer&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(request_, other.request_);
  return *this;
}

Transfer::~Transfer() {
  // NOLINTNEXTLINE(bugprone-unused-return-value): given away on purpose
  if (pending()) bytes_.release();
}

Result<std::unique_ptr<Channel>> Channel::duplicate(MPI_Comm comm,
                                                    std::chrono::milliseconds timeout) {
  int ready = 0;
  MPI_Initialized(&ready);
  if (ready == 0 || finalized()) {
    return Error{Code::invalid_argument, 0, "MPI is not initialised, or finalised"};
  }
  std::unique_ptr<Channel> channel(new Channel());
  if (const Status status = check(MPI_Comm_dup(comm, &channel->comm_), "duplicate"); !status) {
    return status.error();
  }
  MPI_Comm_set_errhandler(channel->comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(channel->comm_, &channel->rank_);
  MPI_Comm_size(channel->comm_, &channel->world_);
  channel->timeout_ = timeout;
  return channel;
}

// Freeing is collective, and would wait for a rank that is gone.
Channel::~Channel() {
  if (comm_ != MPI_COMM_NULL && !broken_ && !finalized()) MPI_Comm_free(&comm_);
}

Status Channel::usable() const {
  if (!finalized()) return {};
  return Error{Code::unavailable, 0, "MPI is finalised; it must outlive the engine"};
}

Status Channel::timed_out(const char* what) const {
  return Error{Code::unavailable, 0,
               "rank " + std::to_string(rank_) + " of " + std::to_string(world_) + ": " + what +
                   " within " + std::to_string(timeout_.count()) + " ms"};
}

Status Channel::send(int rank, int tag, Transfer& transfer) {
  const auto count = count_of(transfer.bytes());
  if (!count) return count.error();
  return check(
      MPI_Isend(transfer.bytes().data(), *count, MPI_BYTE, rank, tag, comm_, &transfer.request_),
      "send");
}

Status Channel::receive(int rank, int tag, Transfer& transfer) {
  const auto count = count_of(transfer.bytes());
  if (!count) return count.error();
  return check(
      MPI_Irecv(transfer.bytes().data(), *count, MPI_BYTE, rank, tag, comm_, &transfer.request_),
      "receive");
}

Result<bool> Channel::done(Transfer& transfer) {
  int flag = 0;
  const Status status =
      check(MPI_Test(&transfer.request_, &flag, MPI_STATUS_IGNORE), "a message under way");
  if (!status) return status.error();
  return flag != 0;
}

Result<std::optional<Channel::Message>> Channel::poll(int tag, Buffers& buffers) {
  int found = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status from;
  Status status = check(MPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &found, &handle, &from), "probe");
  if (!status) return status.error();
  if (found == 0) return std::optional<Message>();
  int count = 0;
  MPI_Get_count(&from, MPI_BYTE, &count);
  // The message is here or on its way from a rank that has begun to send it: waited for like any.
  Transfer transfer(buffers.take(static_cast<std::size_t>(count)));
  status = check(MPI_Imrecv(transfer.bytes().data(), count, MPI_BYTE, &handle, &transfer.request_),
                 "receive");
  if (!status) return status.error();
  status = wait_for("a message that had begun did not arrive", transfer);
  if (!status) return status.error();
  return std::optional<Message>(Message{from.MPI_SOURCE, transfer.release()});
}

Status Channel::wait_for(const char* what, Transfer& transfer) {
  return wait(what, [&] { return done(transfer); });
}

Result<std::vector<std::vector<std::byte>>> Channel::gather(std::span<const std::byte> bytes) {
  constexpr const char* kWhat = "another rank did not take part in opening or looking up";
  const auto world = static_cast<std::size_t>(world_);
  // Lengths first, then the bytes; both in memory that outlives a rank that never answers.
  Transfer lengths(std::make_unique<std::vector<std::byte>>((world + 1) * sizeof(int)));
  auto* all = reinterpret_cast<int*>(lengths.bytes().data());
  all[world] = static_cast<int>(bytes.size());
  Status status = check(
      MPI_Iallgather(&all[world], 1, MPI_INT, all, 1, MPI_INT, comm_, &lengths.request_), "gather");
  if (status) status = wait_for(kWhat, lengths);
  if (!status) return status.error();
  std::size_t total = 0;
  for (std::size_t i = 0; i < world; ++i) total += static_cast<std::size_t>(all[i]);
  if (total > INT_MAX) return Error{Code::internal, 0, "MPI: more to gather than MPI can count"};
  // The received bytes, this rank's own, and where each rank's begin.
  const std::size_t aligned = (total + bytes.size() + sizeof(int) - 1) / sizeof(int) * sizeof(int);
  Transfer data(std::make_unique<std::vector<std::byte>>(aligned + 2 * world * sizeof(int)));
  std::byte* own = data.bytes().data() + total;
  std::memcpy(own, bytes.data(), bytes.size());
  auto* counts = reinterpret_cast<int*>(data.bytes().data() + aligned);
  int* begins = counts + world;
  int at = 0;
  for (std::size_t i = 0; i < world; ++i) {
    counts[i] = all[i];
    begins[i] = at;
    at += all[i];
  }
  status = check(MPI_Iallgatherv(own, static_cast<int>(bytes.size()), MPI_BYTE, data.bytes().data(),
                                 counts, begins, MPI_BYTE, comm_, &data.request_),
                 "gather");
  if (status) status = wait_for(kWhat, data);
  if (!status) return status.error();
  std::vector<std::vector<std::byte>> result;
  for (std::size_t i = 0; i < world; ++i) {
    const auto begin = data.bytes().begin() + begins[i];
    result.emplace_back(begin, begin + counts[i]);
  }
  return result;
}

Status Channel::combine(std::vector<std::byte>& bytes) {
  Transfer transfer(std::make_unique<std::vector<std::byte>>(std::move(bytes)));
  const auto count = count_of(transfer.bytes());
  if (!count) return count.error();
  Status status = check(MPI_Iallreduce(MPI_IN_PLACE, transfer.bytes().data(), *count, MPI_BYTE,
                                       MPI_BOR, comm_, &transfer.request_),
                        "combine");
  if (status) status = wait_for("another rank did not bring its rows", transfer);
  if (status) bytes = std::move(transfer.bytes());
  return status;
}

void Patience::pause() {
  constexpr int kSpins = 64;
  constexpr int kYields = 4096;
  ++pauses_;
  if (pauses_ < kSpins) return;
  if (pauses_ < kYields) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace engram::mpi
