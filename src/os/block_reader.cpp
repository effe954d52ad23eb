// Reads without io_uring: advice and ordinary reads, or a pool of reading threads.
#include "os/block_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/buffer_pool.hpp"
#include "base/error.hpp"
#include "os/read_result.hpp"
#include "os/uring_reader.hpp"

namespace engram::os {
namespace {

std::atomic<ReadFault> g_read_fault{nullptr};
std::atomic<int> g_ring_fault{0};

// One read, to its end; how many bytes there were, or an error.
Result<std::uint32_t> read_fully(const BlockRead& read, int descriptor, std::byte* out) {
  ReadResult result(read);
  while (!result.done()) {
    const ssize_t got = ::pread(descriptor, out + result.begin(), result.left(),
                                static_cast<off_t>(read.offset + result.begin()));
    ENGRAM_TRY(result.add(got < 0 ? -errno : static_cast<int>(got)));
  }
  return result.bytes();
}

// Tells the kernel of all reads first, so that it reads them together, then takes them in turn.
class ReadaheadReader final : public BlockReader {
 public:
  ReadMethod method() const override { return ReadMethod::readahead; }

  void begin(std::span<const BlockRead> reads, BlockSink& sink, Priority /*priority*/) override {
    reads_ = reads;
    sink_ = &sink;
    for (const BlockRead& read : reads) {
      ::posix_fadvise(read.file->buffered_descriptor(), static_cast<off_t>(read.offset), read.size,
                      POSIX_FADV_WILLNEED);
    }
  }
  // What the kernel has read can only be seen by reading.
  bool poll() override { return reads_.empty(); }
  void cancel() override { reads_ = {}; }

  Status finish() override {
    const std::span<const BlockRead> reads = std::exchange(reads_, {});
    for (std::size_t i = 0; i < reads.size(); ++i) {
      const auto bytes =
          read_fully(reads[i], reads[i].file->buffered_descriptor(), buffer_.bytes().data());
      if (!bytes) return bytes.error();
      ENGRAM_TRY(sink_->take(i, buffer_.bytes().first(*bytes)));
    }
    return {};
  }

 private:
  std::span<const BlockRead> reads_;
  BlockSink* sink_ = nullptr;
  BufferPool pool_;
  BufferPool::Buffer buffer_ = pool_.take(kBlockReadBytesMax);
};

// Threads that read while the caller does something else.
class ThreadedReader final : public BlockReader {
 public:
  ThreadedReader() {
    for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this, i] { work(i); });
  }
  ~ThreadedReader() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  ReadMethod method() const override { return ReadMethod::threads; }

  void begin(std::span<const BlockRead> reads, BlockSink& sink, Priority priority) override {
    const std::lock_guard lock(mutex_);
    reads_ = reads;
    next_ = 0;
    sink_ = &sink;
    status_ = Status();
    at_work_ = priority == Priority::whenever ? kThreadsWhenever : kThreads;
    wake_.notify_all();
  }

  bool poll() override {
    const std::lock_guard lock(mutex_);
    return ended();
  }

  Status finish() override {
    std::unique_lock lock(mutex_);
    if (at_work_ != kThreads) wake_.notify_all();
    at_work_ = kThreads;
    idle_.wait(lock, [&] { return ended(); });
    reads_ = {};
    next_ = 0;
    return std::exchange(status_, Status());
  }

  void cancel() override {
    {
      const std::lock_guard lock(mutex_);
      next_ = reads_.size();
      sink_ = nullptr;
    }
    (void)finish();
  }

 private:
  static constexpr std::size_t kThreads = 32;
  static constexpr std::size_t kThreadsWhenever = 4;

  bool ended() const { return busy_ == 0 && (next_ >= reads_.size() || !status_); }

  void work(std::size_t thread) {
    BufferPool pool;
    const BufferPool::Buffer buffer = pool.take(kBlockReadBytesMax);
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] {
        return stop_ || (thread < at_work_ && next_ < reads_.size() && status_.has_value());
      });
      if (stop_) return;
      const std::size_t index = next_++;
      ++busy_;
      const BlockRead read = reads_[index];
      lock.unlock();
      const auto bytes = read_fully(read, read.file->descriptor(), buffer.bytes().data());
      lock.lock();
      Status taken;
      if (!bytes) {
        taken = bytes.error();
      } else if (sink_ != nullptr) {
        taken = sink_->take(index, buffer.bytes().first(*bytes));
      }
      if (!taken && status_) status_ = std::move(taken);
      --busy_;
      if (busy_ == 0) idle_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::span<const BlockRead> reads_;
  std::size_t next_ = 0;
  std::size_t busy_ = 0;
  std::size_t at_work_ = kThreads;  // threads that may take a read
  bool stop_ = false;
  BlockSink* sink_ = nullptr;  // null once cancelled
  Status status_;
  std::vector<std::thread> threads_;
};

}  // namespace

void set_read_fault(ReadFault fault) { g_read_fault = fault; }
void set_ring_fault(int os_errno) { g_ring_fault = os_errno; }
int ring_fault() { return g_ring_fault; }

int with_read_fault(std::uint64_t offset, int result) {
  const ReadFault fault = g_read_fault;
  return fault == nullptr ? result : fault(offset, result);
}

Status ReadResult::add(int result) {
  result = with_read_fault(read_.offset + begin_, result);
  const std::uint64_t at = read_.offset + begin_;
  if (result == -EINTR || result == -EAGAIN) {
    return ++tries_ < kTriesMax
               ? Status()
               : Status(system_error(-result, fmt::format("read at {} never went through", at),
                                     read_.file->path()));
  }
  if (result < 0) {
    return system_error(-result, fmt::format("read of {} bytes at {} failed", left(), at),
                        read_.file->path());
  }
  const std::uint32_t total = begin_ + static_cast<std::uint32_t>(result);
  if (total >= read_.needed) {
    bytes_ = total;
    done_ = true;
    return {};
  }
  if (result == 0 || ++tries_ >= kTriesMax) {
    return make_error(
        Code::corrupt, "{}: truncated: expected {} bytes at offset {}, found {} (file size was {})",
        read_.file->path(), read_.needed, read_.offset, total, read_.file->size_bytes());
  }
  // Direct reads go on at a block; what came of the last one comes again.
  begin_ = total / read_.file->alignment() * read_.file->alignment();
  return {};
}

Result<std::unique_ptr<BlockReader>> make_block_reader(ReadMethod method) {
  if (method == ReadMethod::automatic || method == ReadMethod::uring) {
    auto ring = make_uring_reader();
    if (ring || method == ReadMethod::uring) return ring;
    method = ReadMethod::readahead;
  }
  if (method == ReadMethod::threads) {
    return std::unique_ptr<BlockReader>(std::make_unique<ThreadedReader>());
  }
  return std::unique_ptr<BlockReader>(std::make_unique<ReadaheadReader>());
}

}  // namespace engram::os
