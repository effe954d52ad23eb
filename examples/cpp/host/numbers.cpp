// The arithmetic of the decoder.
#include "numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace host {
namespace {

// Rounds to a float format of `mantissa_bits`, whose smallest normal exponent is `exponent_min`.
float to_small_float(float value, int mantissa_bits, int exponent_min, float largest) {
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return value;
  const int exponent = std::max(std::ilogb(magnitude), exponent_min);
  const float step = std::ldexp(1.0f, exponent - mantissa_bits);
  return std::copysign(std::min(std::nearbyint(magnitude / step) * step, largest), value);
}

float largest_magnitude(std::span<const float> x) {
  float largest = 0;
  for (const float element : x) largest = std::max(largest, std::fabs(element));
  return largest;
}

// x := bf16(element(clamp(x / scale)) * scale), a group at a time. A true division: an E4M3 scale
// is no power of two, and midpoints of E2M1 do occur.
template <typename Scale, typename Element>
void through(std::span<float> x, std::size_t group, float limit, Scale scale_of, Element element) {
  for (std::size_t begin = 0; begin < x.size(); begin += group) {
    const auto part = x.subspan(begin, group);
    const float scale = scale_of(largest_magnitude(part));
    for (float& value : part) {
      value = bfloat16(element(std::clamp(value / scale, -limit, limit)) * scale);
    }
  }
}

}  // namespace

void Matrix::append(std::span<const float> rows, std::size_t width) {
  columns = width;
  values.insert(values.end(), rows.begin(), rows.end());
}

void Matrix::truncate(std::size_t count) {
  values.resize(std::min(values.size(), count * columns));
}

float bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u);
}

float e4m3(float value) { return to_small_float(value, 3, -6, 448); }
float e2m1(float value) { return to_small_float(value, 1, 0, 6); }

float power_of_two_above(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0 ? 1 : 0);
  return std::bit_cast<float>(exponent << 23);
}

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Matrix product(const Matrix& x, const Matrix& weight) {
  Matrix out(x.rows(), weight.rows());
  for (std::size_t i = 0; i < x.rows(); ++i) {
    for (std::size_t o = 0; o < weight.rows(); ++o) out.row(i)[o] = dot(x.row(i), weight.row(o));
  }
  return out;
}

Matrix linear(const Matrix& x, const Matrix& weight) {
  Matrix out = product(x, weight);
  std::transform(out.values.begin(), out.values.end(), out.values.begin(), bfloat16);
  return out;
}

Matrix rms_norm(const Matrix& x, const Vector& weight, float eps) {
  Matrix out(x.rows(), x.columns);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const float mean = dot(x.row(i), x.row(i)) / static_cast<float>(x.columns);
    const float scale = 1.0f / std::sqrt(mean + eps);
    for (std::size_t j = 0; j < x.columns; ++j) {
      out.row(i)[j] = bfloat16(weight[j] * (x.row(i)[j] * scale));
    }
  }
  return out;
}

void through_fp8(std::span<float> x) {
  const auto scale = [](float a) { return power_of_two_above(std::max(a, 1e-4f) * (1 / 448.0f)); };
  through(x, 32, 448, scale, e4m3);
}

void through_mxfp4(std::span<float> x) {
  const float least = 6 * std::ldexp(1.0f, -126);
  const auto scale = [&](float a) { return power_of_two_above(std::max(a, least) * (1 / 6.0f)); };
  through(x, 32, 6, scale, e2m1);
}

void through_nvfp4(std::span<float> x) {
  const float least = 6 * std::ldexp(1.0f, -9);
  const auto scale = [&](float a) { return e4m3(std::max(a, least) / 6); };
  through(x, 16, 6, scale, e2m1);
}

void rotate(std::span<float> x, const Vector& frequencies, std::size_t position, float direction) {
  float* pair = x.data() + x.size() - 2 * frequencies.size();
  for (const float frequency : frequencies) {
    const float angle = static_cast<float>(position) * frequency;
    const float cosine = std::cos(angle);
    const float sine = direction * std::sin(angle);
    const float u = pair[0];
    const float v = pair[1];
    pair[0] = bfloat16(u * cosine - v * sine);
    pair[1] = bfloat16(u * sine + v * cosine);
    pair += 2;
  }
}

}  // namespace host
