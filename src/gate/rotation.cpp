// Rotations of the residual stream: one orthogonal block, repeated along the diagonal.
#include "gate/rotation.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace engram {
namespace {

constexpr double kOrthogonalTolerance = 1e-2;

bool repeats(std::span<const float> matrix, std::size_t width, std::size_t block) {
  for (std::size_t row = 0; row < width; ++row) {
    const std::size_t begin = row / block * block;
    for (std::size_t column = 0; column < width; ++column) {
      const bool inside = column >= begin && column < begin + block;
      const float expected = inside ? matrix[(row - begin) * width + (column - begin)] : 0.0f;
      if (matrix[row * width + column] != expected) return false;
    }
  }
  return true;
}

}  // namespace

Status check_rotation(const GateRotation& rotation, std::size_t width) {
  const std::size_t n = rotation.block;
  if (width % n != 0 || rotation.matrix.size() != n * n) {
    return make_error(Code::invalid_argument,
                      "rotation: {} elements in blocks of {} do not rotate a stream of {}",
                      rotation.matrix.size(), n, width);
  }
  // Q^T (Q x) = x for a few vectors of signs: cheaper than n^3, and a matrix that is not orthogonal
  // moves them all.
  std::uint64_t state = 1;
  std::vector<double> x(n);
  std::vector<double> y(n);
  for (int repeat = 0; repeat < 8; ++repeat) {
    for (double& sign : x) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sign = (state >> 63) != 0 ? 1 : -1;
    }
    for (std::size_t row = 0; row < n; ++row) {
      y[row] = 0;
      for (std::size_t i = 0; i < n; ++i) y[row] += rotation.matrix[row * n + i] * x[i];
    }
    for (std::size_t column = 0; column < n; ++column) {
      double back = 0;
      for (std::size_t i = 0; i < n; ++i) back += rotation.matrix[i * n + column] * y[i];
      if (std::fabs(back - x[column]) <= kOrthogonalTolerance) continue;
      return make_error(Code::corrupt,
                        "rotation: not orthogonal: Q^T Q moves component {} of a sign vector from "
                        "{} to {}",
                        column, x[column], back);
    }
  }
  return {};
}

void multiply_transposed(const GateRotation& rotation, std::span<const float> x,
                         std::span<float> out) {
  const std::size_t n = rotation.block;
  for (std::size_t begin = 0; begin < x.size(); begin += n) {
    for (std::size_t row = 0; row < n; ++row) {
      float sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += x[begin + i] * rotation.matrix[row * n + i];
      out[begin + row] = sum;
    }
  }
}

GateRotation find_rotation_block(std::span<const float> matrix, std::size_t width) {
  for (std::size_t block = 1; block < width; ++block) {
    if (width % block != 0 || !repeats(matrix, width, block)) continue;
    GateRotation rotation{block, {}};
    for (std::size_t row = 0; row < block; ++row) {
      rotation.matrix.insert(rotation.matrix.end(), matrix.begin() + row * width,
                             matrix.begin() + row * width + block);
    }
    return rotation;
  }
  return {width, {matrix.begin(), matrix.end()}};
}

}  // namespace engram
