// Runs independent pieces of one job on a few threads that end with the call.
#include "base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace engram {

Status parallel_for(std::size_t piece_count, int threads,
                    const std::function<Status(std::size_t piece)>& body) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first_failure;  // protected by mutex
  const auto work = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      const std::size_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= piece_count) return;
      Status status = body(piece);
      if (status) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failed.exchange(true)) first_failure = std::move(status);
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min<std::size_t>(piece_count, threads > 1 ? threads : 1);
  helpers.reserve(wanted);
  for (std::size_t i = 1; i < wanted; ++i) {
    // A process at its thread limit still gets its answer, on fewer threads.
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {
      break;
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return first_failure;
}

int usable_processors() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace engram
