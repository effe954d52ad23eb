// Values to MXFP4 groups: the rule by definition, and the tables that give FP8 rows the same bytes.
#include "codec/mxfp4_encode.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/elements.hpp"

namespace engram {
namespace {

constexpr int kExponentMin = -127;
constexpr int kExponentMax = 127;

// Half way between neighbours of 0 .5 1 1.5 2 3 4 6, and whether a tie goes up to an even code.
constexpr std::array<double, 7> kMidpoints = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};

// The magnitude code of |value| / 2^exponent.
int magnitude_code(double magnitude, int exponent, Ties ties) {
  const double r = std::ldexp(magnitude, -exponent);
  int code = 0;
  for (std::size_t i = 0; i < kMidpoints.size(); ++i) {
    const bool tie_goes_up = ties == Ties::even && i % 2 == 1;
    if (r > kMidpoints[i] || (tie_goes_up && r == kMidpoints[i])) code = static_cast<int>(i) + 1;
  }
  return code;
}

double squared_error(double magnitude, int exponent, Ties ties) {
  const auto code = static_cast<std::size_t>(magnitude_code(magnitude, exponent, ties));
  const double error = magnitude - std::ldexp(static_cast<double>(kE2m1[code]), exponent);
  return error * error;
}

// Whether `ceil` takes the larger exponent: amax / 2^(e - 2) exceeds 6.
bool ceil_is_larger(double amax, int floor_exponent) {
  return amax > std::ldexp(6.0, floor_exponent);
}

int choose_exponent(const float* values, double amax, const Mxfp4Rule& rule) {
  const int smaller = std::ilogb(amax) - 2;
  if (rule.exponent == Mxfp4Exponent::floor) return smaller;
  if (rule.exponent == Mxfp4Exponent::ceil)
    return smaller + (ceil_is_larger(amax, smaller) ? 1 : 0);
  double gain = 0;
  for (std::size_t i = 0; i < kMxfp4Group; ++i) {
    const double magnitude = std::fabs(values[i]);
    gain += squared_error(magnitude, smaller + 1, rule.ties) -
            squared_error(magnitude, smaller, rule.ties);
  }
  return smaller + (gain < 0 ? 1 : 0);
}

}  // namespace

std::uint8_t encode_mxfp4_group(const float* values, const Mxfp4Rule& rule, std::byte* codes) {
  double amax = 0;
  for (std::size_t i = 0; i < kMxfp4Group; ++i) amax = std::max<double>(amax, std::fabs(values[i]));
  const int exponent =
      amax == 0 ? 0 : std::clamp(choose_exponent(values, amax, rule), kExponentMin, kExponentMax);
  std::array<int, kMxfp4Group> nibbles;
  for (std::size_t i = 0; i < kMxfp4Group; ++i) {
    const bool minus = std::signbit(values[i]) || (rule.negative_zero && values[i] == 0);
    nibbles[i] = magnitude_code(std::fabs(values[i]), exponent, rule.ties) | (minus ? 8 : 0);
  }
  for (std::size_t i = 0; i < kMxfp4Group / 2; ++i) {
    codes[i] = static_cast<std::byte>(nibbles[2 * i] | nibbles[2 * i + 1] << 4);
  }
  if (amax == 0 && rule.negative_zero) return 0;
  return static_cast<std::uint8_t>(exponent + 127);
}

namespace {

void fill_class(int e, Ties ties, simd::Mxfp4Tables::Class& table) {
  constexpr int kLast = static_cast<int>(simd::Mxfp4Tables::kWindow) - 1;
  const int top = e < -6 ? 7 : 8 * (e + 7) + 7;  // of subnormal codes, or of this exponent's
  table.bias = static_cast<std::uint8_t>(top - kLast + 40);
  for (int entry = 0; entry <= kLast; ++entry) {
    const auto at = static_cast<std::size_t>(entry);
    const int code = std::clamp(top - kLast + entry, 0, 126);  // 127 is NaN, and never looked up
    const double value = float_from_e4m3(static_cast<std::uint8_t>(code));
    for (int shift = 0; shift < 2; ++shift) {
      table.nibbles[static_cast<std::size_t>(shift)][at] =
          static_cast<std::uint8_t>(magnitude_code(value, e - 2 + shift, ties));
    }
    const double gain = squared_error(value, e - 1, ties) - squared_error(value, e - 2, ties);
    table.gain[at] = static_cast<std::uint8_t>(static_cast<int>(std::ldexp(gain, 9 - 2 * e)) + 128);
  }
}

}  // namespace

std::unique_ptr<simd::Mxfp4Tables> make_mxfp4_tables(const Mxfp4Rule& rule) {
  auto tables = std::make_unique<simd::Mxfp4Tables>();
  tables->search = rule.exponent == Mxfp4Exponent::search;
  tables->negative_zero = rule.negative_zero;
  for (std::size_t code = 0; code < 128; ++code) {
    const double value = float_from_e4m3(static_cast<std::uint8_t>(code));
    const bool counts = value > 0;  // neither zero nor NaN
    const int e = counts ? std::ilogb(value) : 0;
    tables->class_of[code] =
        counts ? static_cast<std::uint8_t>(e + 9) : simd::Mxfp4Tables::kNoClass;
    tables->shift_of[code] =
        rule.exponent == Mxfp4Exponent::ceil && counts && ceil_is_larger(value, e - 2) ? 1 : 0;
  }
  for (std::size_t i = 0; i < simd::Mxfp4Tables::kClasses; ++i) {
    fill_class(static_cast<int>(i) - 9, rule.ties, tables->classes[i]);
  }
  return tables;
}

}  // namespace engram
