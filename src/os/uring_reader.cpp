// Reads through io_uring: one ring, registered buffers and files, a bounded queue.
#include "os/uring_reader.hpp"

#include <liburing.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/buffer_pool.hpp"
#include "base/error.hpp"
#include "os/read_result.hpp"

namespace engram::os {
namespace {

// Reads in flight. Measured devices gain nothing beyond 64; 128 leaves room for faster ones.
constexpr unsigned kDepth = 128;
// The same for reads of Priority::whenever, and their place in the kernel's scheduler: best effort,
// level 7 of 0 to 7 (linux/ioprio.h: class 2 in the upper three bits).
constexpr unsigned kDepthWhenever = 16;
constexpr std::uint16_t kPriorityWhenever = 2 << 13 | 7;
// A full queue is topped up when this share of it has ended: a wake-up for each read costs more.
constexpr std::size_t kWaitShare = 4;
// Files that are registered at once.
constexpr unsigned kFileSlots = 16;
// A read that takes longer is given up: a hung device must not hang its caller.
constexpr int kTimeoutSeconds = 30;

class UringReader final : public BlockReader {
 public:
  UringReader() = default;
  UringReader(const UringReader&) = delete;
  UringReader& operator=(const UringReader&) = delete;
  ~UringReader() override {
    cancel();
    if (ready_) io_uring_queue_exit(&ring_);
    // A device that never answered may still write here: the memory is given up, not given back.
    if (poisoned_) new BufferPool::Buffer(std::move(buffer_));
  }

  Status open() {
    int failed = -ring_fault();
    if (failed == 0) failed = io_uring_queue_init(kDepth, &ring_, IORING_SETUP_COOP_TASKRUN);
    if (failed == -EINVAL) failed = io_uring_queue_init(kDepth, &ring_, 0);  // before Linux 5.19
    if (failed != 0) {
      Error error = system_error(-failed, "io_uring is not allowed", "ring");
      error.code = Code::unavailable;
      return error;
    }
    ready_ = true;
    buffer_ = pool_.take(std::size_t{kDepth} * kBlockReadBytesMax);
    const iovec whole{buffer_.bytes().data(), buffer_.bytes().size()};
    // Both registrations only save time; a limit on locked memory may forbid the first.
    fixed_buffer_ = io_uring_register_buffers(&ring_, &whole, 1) == 0;
    fixed_files_ = io_uring_register_files_sparse(&ring_, kFileSlots) == 0;
    for (unsigned slot = 0; slot < kDepth; ++slot) free_.push_back(slot);
    return {};
  }

  ReadMethod method() const override { return ReadMethod::uring; }

  void begin(std::span<const BlockRead> reads, BlockSink& sink, Priority priority) override {
    reads_ = reads;
    next_ = 0;
    sink_ = &sink;
    status_ = Status();
    whenever_ = priority == Priority::whenever;
    if (poisoned_) {
      status_ = make_error(Code::io, "io_uring: an earlier read never ended");
      return;
    }
    fill();
    if (priority != Priority::now) submit();
  }

  bool poll() override {
    if (poisoned_) return true;
    reap();
    fill();
    submit();
    return ended();
  }

  Status finish() override {
    whenever_ = false;
    while (!ended()) {
      fill();
      const auto wait = static_cast<unsigned>(std::max<std::size_t>(1, in_flight_ / kWaitShare));
      Status waited = submit_and_wait(wait);
      if (!waited) {
        poisoned_ = true;
        in_flight_ = 0;
        status_ = std::move(waited);
        break;
      }
      reap();
    }
    reads_ = {};
    next_ = 0;
    return std::exchange(status_, Status());
  }

  void cancel() override {
    next_ = reads_.size();
    sink_ = nullptr;
    (void)finish();
  }

 private:
  bool ended() const { return in_flight_ == 0 && (next_ >= reads_.size() || !status_); }

  // Queues reads while there is room for them.
  void fill() {
    const std::size_t room = whenever_ ? kDepthWhenever : kDepth;
    for (; status_ && next_ < reads_.size() && in_flight_ < room; ++next_, ++in_flight_) {
      const unsigned slot = free_.back();
      free_.pop_back();
      slots_[slot] = {ReadResult(reads_[next_]), next_};
      queue(slot);
    }
  }

  // Hands over what is queued; what the kernel has no room for now goes along the next time.
  void submit() {
    if (io_uring_sq_ready(&ring_) != 0) io_uring_submit(&ring_);
  }

  struct Slot {
    ReadResult result;
    std::size_t index = 0;
  };

  std::byte* memory(unsigned slot) const {
    return buffer_.bytes().data() + std::size_t{slot} * kBlockReadBytesMax;
  }

  // The index of a file among the registered ones, which take turns; -1 where none can be. Known by
  // serial: a descriptor that was closed and used again would name another file.
  int registered(const DirectFile& file) {
    const auto found = std::find(files_.begin(), files_.end(), file.serial());
    if (found != files_.end()) return static_cast<int>(found - files_.begin());
    const int descriptor = file.descriptor();
    if (!fixed_files_ || io_uring_register_files_update(&ring_, next_file_, &descriptor, 1) != 1) {
      return -1;
    }
    const unsigned index = next_file_;
    files_[index] = file.serial();
    next_file_ = (next_file_ + 1) % kFileSlots;
    return static_cast<int>(index);
  }

  void queue(unsigned slot) {
    const ReadResult& result = slots_[slot].result;
    const BlockRead& read = result.read();
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);  // as many entries as slots: never null
    const int fixed = registered(*read.file);
    const int file = fixed >= 0 ? fixed : read.file->descriptor();
    std::byte* out = memory(slot) + result.begin();
    const std::uint64_t offset = read.offset + result.begin();
    if (fixed_buffer_) {
      io_uring_prep_read_fixed(entry, file, out, result.left(), offset, 0);
    } else {
      io_uring_prep_read(entry, file, out, result.left(), offset);
    }
    if (fixed >= 0) entry->flags |= IOSQE_FIXED_FILE;
    if (whenever_) entry->ioprio = kPriorityWhenever;
    io_uring_sqe_set_data64(entry, slot);
  }

  // Hands over what is queued and waits for `wait` completions at least.
  Status submit_and_wait(unsigned wait) {
    for (;;) {
      io_uring_cqe* done = nullptr;
      __kernel_timespec timeout{kTimeoutSeconds, 0};
      const int result = io_uring_submit_and_wait_timeout(&ring_, &done, wait, &timeout, nullptr);
      if (result >= 0) return {};
      if (result == -EINTR || result == -EAGAIN || result == -EBUSY) {
        if (io_uring_cq_ready(&ring_) != 0) return {};
        continue;
      }
      if (result == -ETIME) {
        return make_error(Code::io, "io_uring: no read ended within {} s", kTimeoutSeconds);
      }
      return system_error(-result, "io_uring: cannot submit", "ring");
    }
  }

  // Takes every completion there is.
  void reap() {
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(&ring_, &done) == 0) {
      const auto slot = static_cast<unsigned>(io_uring_cqe_get_data64(done));
      const int result = done->res;
      io_uring_cqe_seen(&ring_, done);
      ReadResult& read = slots_[slot].result;
      Status added = read.add(result);
      if (added && !read.done() && sink_ != nullptr) {
        queue(slot);
        continue;
      }
      if (added && status_ && sink_ != nullptr) {
        added = sink_->take(slots_[slot].index, {memory(slot), read.bytes()});
      }
      if (!added && status_) status_ = std::move(added);
      free_.push_back(slot);
      --in_flight_;
    }
  }

  io_uring ring_{};
  bool ready_ = false;
  bool poisoned_ = false;
  bool fixed_buffer_ = false;
  bool fixed_files_ = false;
  BufferPool pool_;
  BufferPool::Buffer buffer_;  // [kDepth, kBlockReadBytesMax]
  std::array<Slot, kDepth> slots_;
  std::array<std::uint64_t, kFileSlots> files_{};  // serials; 0: none
  unsigned next_file_ = 0;
  std::vector<unsigned> free_;
  // The reads at hand.
  std::span<const BlockRead> reads_;
  std::size_t next_ = 0;
  std::size_t in_flight_ = 0;
  BlockSink* sink_ = nullptr;  // null once cancelled
  bool whenever_ = false;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_uring_reader() {
  auto reader = std::make_unique<UringReader>();
  ENGRAM_TRY(reader->open());
  return std::unique_ptr<BlockReader>(std::move(reader));
}

}  // namespace engram::os
