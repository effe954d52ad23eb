// Measurements in pairs with their bound, and the line that reports them.
#include "cli/bench_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace engram::cli {
namespace {

// The value at a share of the sorted list, 0.5 being the median. Requires values.
double quantile(std::vector<double> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

}  // namespace

Result<double> seconds_of(const std::function<Status()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  ENGRAM_TRY(work());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string report_line(const BenchResult& result, bool json) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    ratios.push_back(result.values[i] / result.bounds[i]);
  }
  const double value = quantile(result.values, 0.5);
  const double bound = quantile(result.bounds, 0.5);
  const double ratio = quantile(ratios, 0.5);
  const double p99 = quantile(result.values, 0.99);
  const double low = quantile(result.values, 0.1);
  const double high = quantile(result.values, 0.9);
  if (json) {
    return fmt::format(
        R"({{"bench":"{}","tier":"{}","workload":"{}","cold":{},"value":{:.6g},"unit":"{}",)"
        R"("bound":{:.6g},"bound_is":"{}","ratio":{:.4g},"p10":{:.6g},"p90":{:.6g},"p99":{:.6g},)"
        R"("rounds":{}}})",
        result.bench, result.tier, result.workload, result.cold, value, result.unit, bound,
        result.bound_name, ratio, low, high, p99, result.values.size());
  }
  return fmt::format(
      "{:<12}{:<8}{:<10}{:<5}{:>10.4g} {:<9} p10..p90 {:.4g}..{:.4g}, p99 {:.4g}; "
      "{}: {:.4g}; ratio {:.2f}",
      result.bench, result.tier, result.workload, result.cold ? "cold" : "warm", value, result.unit,
      low, high, p99, result.bound_name, bound, ratio);
}

}  // namespace engram::cli
