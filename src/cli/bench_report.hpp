// Measurements in pairs with their bound, and the line that reports them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/status.hpp"

namespace engram::cli {

// What was measured: times of one unit of work, each with the bound's time in the same round.
struct BenchResult {
  std::string bench;
  std::string tier;
  std::string workload;    // "text", "uniform" (random ids: the worst case), "one-token" (the best)
  std::string bound_name;  // what the bound does
  std::string unit;        // of values and bounds: "us/token", ...
  bool cold = false;
  std::vector<double> values;
  std::vector<double> bounds;

  // One round of so many units: seconds, in `per_second` of the unit.
  void add(double value_s, double bound_s, double per_second, std::size_t units) {
    const double scale = per_second / static_cast<double>(units);
    values.push_back(value_s * scale);
    bounds.push_back(bound_s * scale);
  }
};

// Seconds that `work` takes.
Result<double> seconds_of(const std::function<Status()>& work);

// A line of text, or one JSON object with at least bench, tier, workload, value, unit, bound and
// ratio: medians, and ratio the median of values over bounds (1: at the bound).
std::string report_line(const BenchResult& result, bool json);

}  // namespace engram::cli
