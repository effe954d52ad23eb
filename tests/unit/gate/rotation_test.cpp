// Rotations: the block that repeats is found, used, and refused where it does not rotate.
#include "gate/rotation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

// A product of plane rotations: orthogonal, and of no smaller block.
GateRotation random_rotation(std::size_t n) {
  GateRotation rotation{n, std::vector<float>(n * n, 0.0f)};
  for (std::size_t i = 0; i < n; ++i) rotation.matrix[i * n + i] = 1;
  test::Random random(n);
  for (std::size_t a = 0; a + 1 < n; ++a) {
    const double angle = 1 + random.symmetric();
    for (std::size_t row = 0; row < n; ++row) {
      float& left = rotation.matrix[row * n + a];
      float& right = rotation.matrix[row * n + a + 1];
      const double l = left * std::cos(angle) - right * std::sin(angle);
      right = static_cast<float>(left * std::sin(angle) + right * std::cos(angle));
      left = static_cast<float>(l);
    }
  }
  return rotation;
}

std::vector<float> repeated(const GateRotation& rotation, std::size_t width) {
  std::vector<float> matrix(width * width, 0.0f);
  for (std::size_t row = 0; row < width; ++row) {
    const std::size_t begin = row / rotation.block * rotation.block;
    for (std::size_t i = 0; i < rotation.block; ++i) {
      matrix[row * width + begin + i] = rotation.matrix[(row - begin) * rotation.block + i];
    }
  }
  return matrix;
}

TEST(Rotation, FindsTheSmallestBlockThatRepeats) {
  for (const std::size_t block : {1, 4, 32, 96}) {
    const GateRotation rotation = random_rotation(block);
    const GateRotation found = find_rotation_block(repeated(rotation, 96), 96);
    EXPECT_EQ(found.block, block);
    EXPECT_EQ(found.matrix, rotation.matrix);
  }
  auto broken = repeated(random_rotation(4), 96);
  broken[50 * 96 + 3] = 1e-6f;
  EXPECT_EQ(find_rotation_block(broken, 96).block, 96u);
}

TEST(Rotation, MultipliesByTheTranspose) {
  const std::size_t width = 12;
  const GateRotation rotation = random_rotation(4);
  const auto matrix = repeated(rotation, width);
  std::vector<float> x(width);
  std::vector<float> found(width);
  test::Random random(1);
  for (float& value : x) value = random.symmetric();
  multiply_transposed(rotation, x, found);
  for (std::size_t row = 0; row < width; ++row) {
    double expected = 0;
    for (std::size_t i = 0; i < width; ++i) {
      expected += static_cast<double>(x[i]) * matrix[row * width + i];
    }
    EXPECT_NEAR(found[row], expected, 1e-6);
  }
}

TEST(Rotation, MustBeOrthogonalAndFit) {
  EXPECT_TRUE(is_ok(check_rotation(random_rotation(32), 96)));
  EXPECT_TRUE(fails(check_rotation(random_rotation(32), 80), Code::invalid_argument,
                    "do not rotate a stream of 80"));
  GateRotation scaled = random_rotation(32);
  for (float& value : scaled.matrix) value *= 1.1f;
  EXPECT_TRUE(fails(check_rotation(scaled, 96), Code::corrupt, "not orthogonal"));
  GateRotation damaged = random_rotation(32);
  damaged.matrix[7] = std::nanf("");
  EXPECT_TRUE(fails(check_rotation(damaged, 96), Code::corrupt, "not orthogonal"));
}

}  // namespace
}  // namespace engram
