// Element formats against their definitions, every bit pattern of each.
#include "codec/elements.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace engram {
namespace {

TEST(Elements, WidenEveryHalf) {
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    const float found = float_from_half(static_cast<std::uint16_t>(bits));
    if (exponent == 31) {
      ASSERT_TRUE(fraction == 0 ? std::isinf(found) : std::isnan(found)) << bits;
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(static_cast<double>(found), sign * magnitude) << bits;
    }
    ASSERT_EQ(std::signbit(found), (bits & 0x8000) != 0) << bits;
  }
}

TEST(Elements, MapFourBitCodesOntoE4m3) {
  constexpr double kE2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 16; ++code) {
    const double magnitude = kE2m1[code & 7];
    const float e2m1 = float_from_e4m3(kE4m3FromE2m1[static_cast<std::size_t>(code)]);
    EXPECT_EQ(e2m1, code < 8 ? magnitude : -magnitude);
    EXPECT_EQ(std::signbit(e2m1), code >= 8);  // -0 is kept
    const float integer = float_from_e4m3(kE4m3FromInt4[static_cast<std::size_t>(code)]);
    EXPECT_EQ(integer, code < 8 ? code : code - 16);
  }
}

}  // namespace
}  // namespace engram
