// Every code under every scale, on every target.
#include "simd/fp8.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/bfloat16.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "tests/support/targets.hpp"

namespace engram::simd {
namespace {

// The definition, in binary64, where every product is exact and normal.
double defined_value(int code, int scale) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return std::copysign(std::ldexp(magnitude, scale - 127), code & 0x80 ? -1.0 : 1.0);
}

TEST(Fp8Value, IsTheExactProductForEveryCodeAndScale) {
  for (int scale = 0; scale < 256; ++scale) {
    for (int code = 0; code < 256; ++code) {
      const auto value = std::bit_cast<float>(
          fp8_value_bits(static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(scale)));
      if ((code & 0x7F) == 0x7F || scale == 255) {
        ASSERT_TRUE(std::isnan(value)) << code << " " << scale;
        continue;
      }
      const double expected = defined_value(code, scale);
      if (std::fabs(expected) >= 0x1p128) {
        ASSERT_EQ(value, std::copysign(INFINITY, expected)) << code << " " << scale;
      } else {
        ASSERT_EQ(static_cast<double>(value), expected) << code << " " << scale;
        ASSERT_EQ(std::signbit(value), std::signbit(expected)) << code << " " << scale;
      }
    }
  }
}

TEST(Fp8Value, DecodesTheCodesOfFieldFaults) {
  const auto value = [](int code, int scale) {
    return std::bit_cast<float>(
        fp8_value_bits(static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(scale)));
  };
  EXPECT_EQ(value(0x38, 127), 1.0f);  // a scale byte is an exponent, not the number 127
  EXPECT_EQ(value(0x38, 128), 2.0f);
  EXPECT_EQ(value(0x38, 134), 128.0f);  // only byte 255 is NaN
  EXPECT_TRUE(std::isnan(value(0x38, 255)));
  EXPECT_EQ(value(0x01, 127), 0.001953125f);  // subnormal: no implicit one
  EXPECT_EQ(value(0x07, 127), 0.013671875f);
  EXPECT_TRUE(std::signbit(value(0x80, 127)));  // -0.0, not FNUZ's NaN
  EXPECT_EQ(value(0x80, 127), 0.0f);
  EXPECT_EQ(value(0x38, 0), 0x1p-127f);  // byte 0 is 2^-127, not 0
}

// Rows that hold all 256 codes under the same scale, for every scale.
std::vector<std::uint8_t> every_pair() {
  std::vector<std::uint8_t> packed;
  for (int scale = 0; scale < 256; ++scale) {
    for (int code = 0; code < 256; ++code) packed.push_back(static_cast<std::uint8_t>(code));
    packed.insert(packed.end(), 8, static_cast<std::uint8_t>(scale));
  }
  return packed;
}

template <typename T>
struct Decoded {
  std::vector<T> values;
  std::size_t first_bad;
};

// Exact-size heap copies of the input and of every output row, so that an address sanitiser sees
// any access beyond them.
template <typename T, typename Decode>
Decoded<T> decode(const std::vector<std::uint8_t>& packed, std::size_t head_dim, Decode run) {
  const std::size_t rows = packed.size() / (head_dim + head_dim / kFp8Group);
  const auto input = std::make_unique<std::uint8_t[]>(packed.size());
  std::copy(packed.begin(), packed.end(), input.get());
  std::vector<std::unique_ptr<T[]>> outputs;
  std::vector<T*> pointers;
  for (std::size_t row = 0; row < rows; ++row) {
    outputs.push_back(std::make_unique<T[]>(head_dim));
    pointers.push_back(outputs.back().get());
  }
  Decoded<T> result;
  result.first_bad = run(Fp8Rows{input.get(), head_dim}, std::span<T* const>(pointers));
  for (const auto& row : outputs) {
    result.values.insert(result.values.end(), row.get(), row.get() + head_dim);
  }
  return result;
}

template <typename T>
void expect_targets_agree(const std::vector<std::uint8_t>& packed, std::size_t head_dim) {
  const auto scalar = decode<T>(packed, head_dim, [](const Fp8Rows& rows, auto outputs) {
    return decode_fp8_scalar(rows, outputs);
  });
  test::for_each_target([&] {
    const auto found = decode<T>(packed, head_dim, [](const Fp8Rows& rows, auto outputs) {
      return decode_fp8(rows, outputs);
    });
    EXPECT_EQ(found.first_bad, scalar.first_bad);
    ASSERT_EQ(found.values.size(), scalar.values.size());
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      ASSERT_EQ(std::memcmp(&found.values[i], &scalar.values[i], sizeof(T)), 0) << "element " << i;
    }
  });
}

TEST(Fp8Rows, AreBitEqualOnEveryTargetForEveryPair) {
  expect_targets_agree<std::uint16_t>(every_pair(), 256);
  expect_targets_agree<float>(every_pair(), 256);
}

TEST(Fp8Rows, TakeAnyMultipleOf32AndMixedScales) {
  test::Random random(4);
  for (const std::size_t head_dim : {32, 64, 96, 256, 320}) {
    std::vector<std::uint8_t> packed(5 * (head_dim + head_dim / kFp8Group));
    for (auto& byte : packed) byte = static_cast<std::uint8_t>(random.next());
    expect_targets_agree<std::uint16_t>(packed, head_dim);
    for (std::size_t i = 0; i < packed.size(); ++i) {
      // Rows of the fast way: scales near 127, no NaN code.
      const bool is_scale = i % (head_dim + head_dim / kFp8Group) >= head_dim;
      if (is_scale) packed[i] = static_cast<std::uint8_t>(10 + packed[i] % 237);
      if (!is_scale && (packed[i] & 0x7F) == 0x7F) packed[i] ^= 1;
    }
    expect_targets_agree<std::uint16_t>(packed, head_dim);
    expect_targets_agree<float>(packed, head_dim);
  }
}

TEST(Fp8Rows, RoundToBfloat16OnlyBelowScaleThree) {
  for (int scale = 3; scale <= 246; ++scale) {
    for (int code = 0; code < 256; ++code) {
      const auto bits =
          fp8_value_bits(static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(scale));
      if ((code & 0x7F) == 0x7F) continue;
      ASSERT_EQ(bits & 0xFFFF, 0u) << code << " " << scale;
    }
  }
}

TEST(Fp8Rows, DecodeTheRow264VectorOfAnotherPort) {
  // Code i is i, but 127 -> 0 and 255 -> 128; all scales 126 + row.
  const auto scales =
      test::flat<int>(test::at(test::golden("ds4-row264"), {"inputs", "scale_bytes"}));
  std::vector<std::uint8_t> packed;
  for (const int scale : scales) {
    for (int i = 0; i < 256; ++i) {
      packed.push_back(static_cast<std::uint8_t>(i == 127 ? 0 : i == 255 ? 128 : i));
    }
    packed.insert(packed.end(), 8, static_cast<std::uint8_t>(scale));
  }
  const auto found = decode<std::uint16_t>(
      packed, 256, [](const Fp8Rows& rows, auto outputs) { return decode_fp8(rows, outputs); });
  EXPECT_EQ(found.first_bad, scales.size());
  for (std::size_t row = 0; row < scales.size(); ++row) {
    for (std::size_t i = 0; i < 256; ++i) {
      const double expected = defined_value(packed[row * 264 + i], scales[row]);
      const float value = float_from_bfloat16(found.values[row * 256 + i]);
      ASSERT_EQ(value, expected);
      ASSERT_EQ(std::signbit(value), std::signbit(expected));
    }
  }
}

TEST(Fp8Rows, AgreeWithAnotherPortOnWhatIsInvalid) {
  // ds4-all-scaled: invalid iff code & 127 == 127, scale == 255, or the bfloat16 is not finite.
  for (int scale = 0; scale < 256; ++scale) {
    for (int code = 0; code < 256; ++code) {
      std::vector<std::uint8_t> packed(32, static_cast<std::uint8_t>(code));
      packed.push_back(static_cast<std::uint8_t>(scale));
      const auto found = decode<std::uint16_t>(
          packed, 32, [](const Fp8Rows& rows, auto outputs) { return decode_fp8(rows, outputs); });
      const bool invalid =
          (code & 127) == 127 || scale == 255 || std::fabs(defined_value(code, scale)) >= 0x1p128;
      ASSERT_EQ(found.first_bad == 0, invalid) << code << " " << scale;
    }
  }
}

}  // namespace
}  // namespace engram::simd
