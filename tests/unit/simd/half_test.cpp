// Binary32 to binary16 by every target, against the definition.
#include "simd/half.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "codec/elements.hpp"
#include "tests/support/targets.hpp"

namespace engram {
namespace {

// Every binary16 value, the middles between neighbours, and the binary32 values beside both.
std::vector<float> edges() {
  std::vector<float> result = {65519.996f, 65520.0f, 3e38f, std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  for (std::uint16_t bits = 0; bits < 0x7C00; ++bits) {
    const float value = float_from_half(bits);
    const float next =
        bits + 1 < 0x7C00 ? float_from_half(static_cast<std::uint16_t>(bits + 1)) : 65536.0f;
    for (const float at : {value, (value + next) / 2}) {
      for (const float beside : {std::nextafter(at, -1.0f), at, std::nextafter(at, 1e30f)}) {
        result.push_back(beside);
      }
    }
  }
  const std::size_t count = result.size();
  for (std::size_t i = 0; i < count; ++i) result.push_back(-result[i]);
  while (result.size() % 16 != 0) result.push_back(0);
  return result;
}

TEST(Half, EveryTargetRoundsToNearestEven) {
  const std::vector<float> values = edges();
  test::for_each_target([&] {
    std::vector<std::uint16_t> found(values.size());
    EXPECT_FALSE(simd::encode_half(values.data(), values.size(), found.data()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(found[i], half_from_float(values[i]))
          << std::hex << std::bit_cast<std::uint32_t>(values[i]);
    }
  });
}

TEST(Half, SaysWhetherAllAreFinite) {
  test::for_each_target([&] {
    for (const float largest : {65519.0f, 65520.0f}) {
      std::vector<float> values(32, 1.0f);
      values[17] = -largest;
      std::vector<std::uint16_t> out(values.size());
      EXPECT_EQ(simd::encode_half(values.data(), values.size(), out.data()), largest < 65520.0f);
    }
  });
}

}  // namespace
}  // namespace engram
