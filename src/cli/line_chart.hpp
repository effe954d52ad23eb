// A line chart as SVG: shares from 0 to 1 over a logarithmic axis.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace engram::cli {

class LineChart {
 public:
  LineChart(std::string title, std::string x_label)
      : title_(std::move(title)), x_label_(std::move(x_label)) {}

  void add_line(std::string name) { lines_.push_back({std::move(name), {}}); }
  // Requires x > 0, 0 <= y <= 1, and lines with points at the same places.
  void add_point(std::size_t line, double x, double y) { lines_[line].points.emplace_back(x, y); }
  // Requires two points or more on each line.
  std::string svg() const;

 private:
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;
  };
  std::string title_;
  std::string x_label_;
  std::vector<Line> lines_;
};

}  // namespace engram::cli
