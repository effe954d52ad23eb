// Large scratch buffers that are used again: a fresh one costs a page fault for every 4 KiB of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace engram {

// Any number of threads may borrow. The pool must outlive what is borrowed.
class BufferPool {
  static constexpr std::size_t kAlignment = 4096;
  struct Delete {
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t(kAlignment));
    }
  };
  using Memory = std::unique_ptr<std::byte[], Delete>;

 public:
  // A buffer of at least the size asked for; its bytes are whatever they were. Movable.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(memory_, other.memory_);
      std::swap(capacity_, other.capacity_);
      std::swap(shift_, other.shift_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~Buffer() {
      if (pool_ != nullptr) pool_->put(std::move(memory_), capacity_);
    }

    std::span<std::byte> bytes() const { return {memory_.get() + shift_, size_}; }

   private:
    friend class BufferPool;
    BufferPool* pool_ = nullptr;
    Memory memory_;
    std::size_t capacity_ = 0;
    std::size_t shift_ = 0;
    std::size_t size_ = 0;
  };

  // The buffer's address is `offset` modulo 4096: what direct I/O wants of bytes that go there.
  Buffer take(std::size_t size, std::uint64_t offset = 0) {
    Buffer buffer;
    buffer.pool_ = this;
    buffer.size_ = size;
    buffer.shift_ = offset % kAlignment;
    size = (buffer.shift_ + size + kAlignment - 1) / kAlignment * kAlignment;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [memory, capacity] : free_) {
        if (capacity < size) continue;
        buffer.memory_ = std::move(memory);
        buffer.capacity_ = capacity;
        std::swap(free_.back().first, memory);
        std::swap(free_.back().second, capacity);
        free_.pop_back();
        return buffer;
      }
    }
    buffer.memory_.reset(
        static_cast<std::byte*>(::operator new(size, std::align_val_t(kAlignment))));
    buffer.capacity_ = size;
    return buffer;
  }

 private:
  void put(Memory memory, std::size_t capacity) {
    const std::lock_guard lock(mutex_);
    free_.emplace_back(std::move(memory), capacity);
  }

  std::mutex mutex_;
  std::vector<std::pair<Memory, std::size_t>> free_;
};

}  // namespace engram
