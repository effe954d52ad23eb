// Times a subject and its bound in turns, so that both see the same machine.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace engram::bench {

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

template <typename Work>
double seconds(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Runs bound and subject alternately while the benchmark lasts. Reports nanoseconds per item of
// each (medians) and the median of subject / bound: what a shared, noisy machine can still tell.
template <typename Bound, typename Subject>
void paired(benchmark::State& state, double items, Bound&& bound, Subject&& subject) {
  std::vector<double> bound_times;
  std::vector<double> subject_times;
  std::vector<double> ratios;
  for (auto _ : state) {
    bound_times.push_back(seconds(bound));
    subject_times.push_back(seconds(subject));
    ratios.push_back(subject_times.back() / bound_times.back());
    state.SetIterationTime(subject_times.back());
  }
  state.counters["bound_ns"] = median(bound_times) * 1e9 / items;
  state.counters["subject_ns"] = median(subject_times) * 1e9 / items;
  state.counters["subject/bound"] = median(ratios);
}

}  // namespace engram::bench
