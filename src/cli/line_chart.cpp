// A line chart as SVG: shares from 0 to 1 over a logarithmic axis.
#include "cli/line_chart.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace engram::cli {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 400;
constexpr double kLeft = 60;
constexpr double kRight = 20;
constexpr double kTop = 50;
constexpr double kBottom = 50;
constexpr std::array kColours = {"#1f5fa8", "#c4622d", "#3d8b4f", "#7a4fa3"};

double y_of(double share) { return kHeight - kBottom - share * (kHeight - kTop - kBottom); }

}  // namespace

std::string LineChart::svg() const {
  const double first = std::log(lines_.front().points.front().first);
  const double last = std::log(lines_.front().points.back().first);
  const auto x_of = [&](double x) {
    return kLeft + (std::log(x) - first) / (last - first) * (kWidth - kLeft - kRight);
  };
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="{}" y="22" font-size="15">{}</text>
<text x="{}" y="{}" text-anchor="middle">{}</text>
)",
      kWidth, kHeight, kLeft, title_, (kLeft + kWidth - kRight) / 2, kHeight - 12, x_label_);
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double y = y_of(tenth / 10.0);
    out += fmt::format(R"(<path d="M{} {:.1f}H{}" stroke="#ddd"/><text x="{}" y="{:.1f}" )"
                       R"(text-anchor="end">{:.1f}</text>)"
                       "\n",
                       kLeft, y, kWidth - kRight, kLeft - 8, y + 4, tenth / 10.0);
  }
  for (const auto& [x, y] : lines_.front().points) {
    out += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{:g}</text>)"
                       "\n",
                       x_of(x), kHeight - kBottom + 18, x);
  }
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    std::string path;
    for (const auto& [x, y] : lines_[i].points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(x), y_of(y));
    }
    out += fmt::format(
        R"(<path d="{}" fill="none" stroke="{}" stroke-width="2"/><text x="{}" y="{}" fill="{}">{}</text>)"
        "\n",
        path, colour, kLeft + 10, kTop + 16 * static_cast<double>(i), colour, lines_[i].name);
  }
  return out + "</svg>\n";
}

}  // namespace engram::cli
