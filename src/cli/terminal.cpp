// Progress on a terminal, and nothing where stderr is not one.
#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace engram::cli {

Progress progress_bar(std::string label, Counts counts) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  using Clock = std::chrono::steady_clock;
  constexpr int kWidth = 40;
  const auto begin = Clock::now();
  return [label = std::move(label), counts, begin, shown = false, last = begin](
             std::uint64_t done, std::uint64_t total) mutable {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - begin).count();
    if (seconds < 1.0 || total == 0) return;
    if (done < total && shown && now - last < std::chrono::milliseconds(100)) return;
    shown = true;
    last = now;
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const int filled = static_cast<int>(share * kWidth);
    const double left = share > 0 ? seconds / share - seconds : 0;
    const std::string speed =
        counts == Counts::bytes
            ? fmt::format("{:.0f} MB/s, ", static_cast<double>(done) / seconds * 1e-6)
            : std::string();
    fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3.0f}% {}{:.0f} s left ", label, "", filled, "",
               kWidth - filled, share * 100, speed, left);
    if (done >= total) fmt::print(stderr, "\n");
    std::fflush(stderr);
  };
}

}  // namespace engram::cli
