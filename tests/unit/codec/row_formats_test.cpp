// Every row format: the fast decoder against the definition, encoders against their rules.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "codec/elements.hpp"
#include "codec/mxfp4_encode.hpp"
#include "codec/row_codec.hpp"
#include "codec/row_encode.hpp"
#include "codec/row_values.hpp"
#include "codec/transcode.hpp"
#include "simd/fp8.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"
#include "tests/support/targets.hpp"

namespace engram {
namespace {

constexpr std::size_t kDim = 256;

std::vector<RowLayout> all_layouts() {
  std::vector<RowLayout> layouts;
  for (int f = 0; f <= static_cast<int>(RowFormat::q2_k); ++f) {
    if (static_cast<RowFormat>(f) != RowFormat::affine) {
      layouts.push_back({static_cast<RowFormat>(f), kDim});
    }
  }
  for (const std::size_t bits : {2, 3, 4, 6, 8}) {
    for (const std::size_t group : {32, 64, 128}) {
      for (const bool wide : {false, true}) {
        layouts.push_back({RowFormat::affine, kDim, group, bits, wide});
      }
    }
  }
  return layouts;
}

std::vector<std::byte> random_bytes(test::Random& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// The value of a column by definition, whichever way the format is defined.
float defined_value(const RowLayout& layout, const std::byte* row, std::size_t i) {
  if (!expands_to_fp8(layout.format)) {
    float value = 0;
    decode_values(layout, row, i / 32 * 32 + i % 32, 1, &value);
    return value;
  }
  const auto code = [&](std::size_t byte) { return static_cast<std::uint8_t>(row[byte]); };
  const auto nibble = [&](std::size_t byte, bool high) {
    return code(byte) >> (high ? 4 : 0) & 15;
  };
  const std::size_t scale_at = layout.code_bytes() + i / 32;
  switch (layout.format) {
    case RowFormat::fp8_e4m3_e8m0:
      return std::bit_cast<float>(simd::fp8_value_bits(code(i), code(scale_at)));
    case RowFormat::mxfp4: {
      const int q = nibble(i / 2, i % 2 != 0);
      return (q < 8 ? 1.0f : -1.0f) * kE2m1[static_cast<std::size_t>(q & 7)] *
             float_from_e8m0(code(scale_at));
    }
    case RowFormat::int4_e8m0: {
      const int q = nibble(i / 2, i % 2 != 0);
      return static_cast<float>(q < 8 ? q : q - 16) * float_from_e8m0(code(scale_at));
    }
    default: {  // mxfp4_block
      const std::size_t block = 17 * (i / 32);
      const int q = nibble(block + 1 + i % 16, i % 32 >= 16);
      return (q < 8 ? 1.0f : -1.0f) * kE2m1[static_cast<std::size_t>(q & 7)] *
             float_from_e8m0(code(block));
    }
  }
}

// Equal bits, or both NaN: payloads are nobody's contract.
void expect_same(float expected, float found, std::size_t i) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(found))
        << "column " << i << ": " << std::hex << std::bit_cast<std::uint32_t>(expected) << " "
        << std::bit_cast<std::uint32_t>(found);
  } else {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(expected), std::bit_cast<std::uint32_t>(found))
        << "column " << i;
  }
}

TEST(RowFormats, FastDecodersEqualTheDefinition) {
  for (const RowLayout& layout : all_layouts()) {
    SCOPED_TRACE("format " + std::to_string(static_cast<int>(layout.format)) + ", bits " +
                 std::to_string(layout.bits) + ", group " + std::to_string(layout.group));
    test::for_each_target([&] {
      test::Random random(17);
      for (int repeat = 0; repeat < 24; ++repeat) {
        // Any bytes at all: subnormal, infinite and NaN scales included.
        const auto row = random_bytes(random, layout.row_bytes());
        std::vector<float> wide(kDim);
        std::vector<std::uint16_t> narrow(kDim);
        std::vector<std::uint16_t> half(kDim);
        std::byte* half_out = reinterpret_cast<std::byte*>(half.data());
        std::byte* wide_out = reinterpret_cast<std::byte*>(wide.data());
        std::byte* narrow_out = reinterpret_cast<std::byte*>(narrow.data());
        const bool wide_finite =
            decode_rows(layout, OutputFormat::f32, row.data(), {&wide_out, 1}) == 1;
        const bool narrow_finite =
            decode_rows(layout, OutputFormat::bf16, row.data(), {&narrow_out, 1}) == 1;
        const bool half_finite =
            decode_rows(layout, OutputFormat::f16, row.data(), {&half_out, 1}) == 1;
        bool expected_half = true;
        bool expected_wide = true;
        bool expected_narrow = true;
        for (std::size_t i = 0; i < kDim; ++i) {
          const float value = defined_value(layout, row.data(), i);
          expected_wide &= std::isfinite(value);
          expected_narrow &= bfloat16_is_finite(bfloat16_from_float(value));
          expected_half &= std::isfinite(float_from_half(half_from_float(value)));
          expect_same(value, wide[i], i);
          expect_same(float_from_half(half_from_float(value)), float_from_half(half[i]), i);
          expect_same(float_from_bfloat16(bfloat16_from_float(value)),
                      float_from_bfloat16(narrow[i]), i);
          if (::testing::Test::HasFatalFailure()) return;
        }
        ASSERT_EQ(wide_finite, expected_wide);
        ASSERT_EQ(narrow_finite, expected_narrow);
        ASSERT_EQ(half_finite, expected_half);
        ASSERT_EQ(row_is_finite(layout, row.data()), expected_wide);
      }
    });
  }
}

// One group of codes under scale byte 120; the bytes each rule must give.
// Source: formats.md section 3.1 (measured there against the tools named).
TEST(RowFormats, QuantiseToMxfp4AsEachRuleSays) {
  constexpr std::array<std::uint8_t, 32> kCodes = {0x7e, 0x77, 0x70, 0x6c, 0x68, 0x64, 0x60, 0x58,
                                                   0x50, 0x48, 0x40, 0x38, 0x30, 0x20, 0x10, 0x00,
                                                   0xfd, 0xf6, 0xef, 0xeb, 0xe7, 0xe3, 0xdf, 0xd7,
                                                   0xcf, 0xc7, 0xbf, 0xb7, 0xaf, 0x9f, 0x8f, 0x80};
  struct Case {
    Mxfp4Rule rule;
    int scale;
    std::string_view codes;
  };
  const std::array cases = {
      Case{{Mxfp4Exponent::floor, Ties::even}, 126, "6734220100000000efbc9a8988888888"},
      Case{{Mxfp4Exponent::ceil, Ties::even}, 127, "4622110000000000cd9a998888888888"},
      Case{kModelOptMxfp4, 127, "4512110000000080bd9a998888888888"},
  };
  std::vector<std::byte> row(33);
  std::memcpy(row.data(), kCodes.data(), 32);
  row[32] = std::byte{120};
  for (const Case& expected : cases) {
    test::for_each_target([&] {
      const auto transcoder =
          Transcoder::create({RowFormat::fp8_e4m3_e8m0, 32}, {RowFormat::mxfp4, 32}, expected.rule);
      ASSERT_TRUE(test::is_ok(transcoder));
      std::array<std::byte, 17> out;
      ASSERT_EQ(transcoder->run(row.data(), 1, out.data()), 1u);
      std::string hex;
      for (std::size_t i = 0; i < 16; ++i) {
        constexpr char kDigits[] = "0123456789abcdef";
        hex += kDigits[static_cast<std::size_t>(out[i]) >> 4];
        hex += kDigits[static_cast<std::size_t>(out[i]) & 15];
      }
      EXPECT_EQ(hex, expected.codes);
      EXPECT_EQ(static_cast<int>(out[16]), expected.scale);
    });
  }
}

TEST(RowFormats, QuantiseFp8ToMxfp4ByTableAsByDefinition) {
  test::Random random(5);
  for (const Mxfp4Exponent exponent :
       {Mxfp4Exponent::floor, Mxfp4Exponent::ceil, Mxfp4Exponent::search}) {
    for (const Ties ties : {Ties::even, Ties::toward_zero}) {
      for (const bool negative_zero : {false, true}) {
        const Mxfp4Rule rule{exponent, ties, negative_zero};
        const RowLayout fp8{RowFormat::fp8_e4m3_e8m0, kDim};
        const RowLayout mxfp4{RowFormat::mxfp4, kDim};
        const auto transcoder = Transcoder::create(fp8, mxfp4, rule);
        ASSERT_TRUE(test::is_ok(transcoder));
        test::for_each_target([&] {
          for (int repeat = 0; repeat < 200; ++repeat) {
            auto row = random_bytes(random, fp8.row_bytes());
            const int span = static_cast<int>(random.below(128)) + 1;
            for (std::size_t i = 0; i < row.size(); ++i) {
              auto& byte = row[i];
              if (i >= kDim) {  // extremes too, where the table gives way to the definition
                byte = static_cast<std::byte>(repeat % 10 == 0 ? random.below(247)
                                                               : 100 + random.below(50));
              } else if (repeat % 3 == 0) {  // groups whose codes are all small, down to zero
                byte &= std::byte{0x80};
                byte |= static_cast<std::byte>(random.below(static_cast<std::uint64_t>(span)));
              }
              if (i < kDim && (byte & std::byte{0x7F}) == std::byte{0x7F}) byte ^= std::byte{1};
            }
            std::vector<std::byte> found(mxfp4.row_bytes());
            ASSERT_EQ(transcoder->run(row.data(), 1, found.data()), 1u);
            std::vector<float> values(kDim);
            for (std::size_t i = 0; i < kDim; ++i) values[i] = defined_value(fp8, row.data(), i);
            std::vector<std::byte> expected(mxfp4.row_bytes());
            encode_row(mxfp4, rule, values, expected.data());
            for (std::size_t i = 0; i < found.size(); ++i) {
              ASSERT_EQ(found[i], expected[i])
                  << "byte " << i << " of rule " << static_cast<int>(exponent) << ' '
                  << static_cast<int>(ties) << ' ' << negative_zero;
            }
          }
        });
      }
    }
  }
}

TEST(RowFormats, RefuseToQuantiseWhatIsNotANumber) {
  std::vector<std::byte> rows(3 * 264, std::byte{0x38});
  rows[264 + 77] = std::byte{0xFF};
  for (const RowFormat to : {RowFormat::fp8_e4m3_e8m0, RowFormat::bf16, RowFormat::mxfp4,
                             RowFormat::int8_f32, RowFormat::q8_0, RowFormat::lloyd4_e5m3}) {
    const auto transcoder = Transcoder::create({RowFormat::fp8_e4m3_e8m0, kDim}, {to, kDim}, {});
    ASSERT_TRUE(test::is_ok(transcoder));
    std::vector<std::byte> out(3 * transcoder->to().row_bytes());
    EXPECT_EQ(transcoder->run(rows.data(), 3, out.data()), 1u);
  }
  EXPECT_TRUE(test::fails(Transcoder::create({RowFormat::bf16, kDim}, {RowFormat::q4_k, kDim}, {}),
                          Code::unsupported, "can be read, not written"));
}

// Normal values as FP8 rows hold them.
std::vector<float> gaussian_row(test::Random& random) {
  std::vector<float> values(kDim);
  for (std::size_t i = 0; i < kDim; i += 2) {  // Box and Muller
    const double radius = std::sqrt(-2 * std::log(1 - 0.5 * (random.symmetric() + 1.0)));
    const double angle = 3.14159265358979 * random.symmetric();
    values[i] = static_cast<float>(radius * std::cos(angle));
    values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

std::vector<float> through(const RowLayout& layout, const std::vector<float>& values) {
  std::vector<std::byte> packed(layout.row_bytes());
  encode_row(layout, {}, values, packed.data());
  std::vector<float> result(kDim);
  for (std::size_t i = 0; i < kDim; ++i) result[i] = defined_value(layout, packed.data(), i);
  return result;
}

double relative_error(RowFormat format) {
  test::Random random(3);
  double error = 0;
  double power = 0;
  for (int row = 0; row < 2000; ++row) {
    const auto reals = gaussian_row(random);
    const auto fp8 = through({RowFormat::fp8_e4m3_e8m0, kDim}, reals);
    const bool is_fp8 = format == RowFormat::fp8_e4m3_e8m0;
    const auto& source = is_fp8 ? reals : fp8;
    const auto found = is_fp8 ? fp8 : through({format, kDim}, fp8);
    for (std::size_t i = 0; i < kDim; ++i) {
      const double difference = source[i] - found[i];
      error += difference * difference;
      power += static_cast<double>(source[i]) * source[i];
    }
  }
  return std::sqrt(error / power);
}

// The distances that independent simulations of each format give for normal rows.
// Source: formats.md section 8.2.
TEST(RowFormats, LoseAsMuchAsTheirPublishedDistances) {
  const auto expect_near = [](RowFormat format, double published) {
    EXPECT_NEAR(relative_error(format), published, published * 0.03) << static_cast<int>(format);
  };
  expect_near(RowFormat::fp8_e4m3_e8m0, 0.0265);
  expect_near(RowFormat::int8_f32, 0.0041);
  expect_near(RowFormat::q8_0, 0.0055);
  expect_near(RowFormat::lloyd4_e5m3, 0.0850);
  // Published with codes of the scale before its rounding; ours are those of the rounded scale.
  EXPECT_LT(relative_error(RowFormat::int4_e4m3), 0.1027);
  expect_near(RowFormat::mxfp4, 0.1173);
  expect_near(RowFormat::mxfp4_block, 0.1173);
}

// Decoding what was encoded and encoding it again changes nothing.
TEST(RowFormats, EncodeTheirOwnValuesAgain) {
  for (const RowFormat format :
       {RowFormat::bf16, RowFormat::f16, RowFormat::f32, RowFormat::int8_f32}) {
    const RowLayout layout{format, kDim};
    test::Random random(8);
    std::vector<std::byte> first(layout.row_bytes());
    std::vector<std::byte> second(layout.row_bytes());
    encode_row(layout, {}, gaussian_row(random), first.data());
    std::vector<float> values(kDim);
    for (std::size_t i = 0; i < kDim; ++i) values[i] = defined_value(layout, first.data(), i);
    encode_row(layout, {}, values, second.data());
    EXPECT_EQ(first, second) << static_cast<int>(format);
  }
}

TEST(RowFormats, MoveMxfp4BetweenItsTwoOrdersAndBack) {
  const RowLayout pairs{RowFormat::mxfp4, kDim};
  const RowLayout blocks{RowFormat::mxfp4_block, kDim};
  test::Random random(12);
  auto row = random_bytes(random, pairs.row_bytes());
  for (std::size_t i = 128; i < 136; ++i) row[i] = std::byte{120};
  std::vector<std::byte> block(blocks.row_bytes());
  std::vector<std::byte> back(pairs.row_bytes());
  ASSERT_EQ(Transcoder::create(pairs, blocks, {})->run(row.data(), 1, block.data()), 1u);
  for (std::size_t i = 0; i < kDim; ++i) {
    ASSERT_EQ(defined_value(pairs, row.data(), i), defined_value(blocks, block.data(), i)) << i;
  }
  ASSERT_EQ(Transcoder::create(blocks, pairs, {})->run(block.data(), 1, back.data()), 1u);
  EXPECT_EQ(row, back);
}

TEST(RowFormats, GoThroughFp8WithoutLoss) {
  test::Random random(21);
  const RowLayout fp8{RowFormat::fp8_e4m3_e8m0, kDim};
  for (const RowFormat format : {RowFormat::mxfp4, RowFormat::int4_e8m0, RowFormat::mxfp4_block}) {
    const RowLayout from{format, kDim};
    auto row = random_bytes(random, from.row_bytes());
    for (std::size_t i = 0; i < 8; ++i) {
      row[format == RowFormat::mxfp4_block ? 17 * i : 128 + i] = std::byte{119};
    }
    std::vector<std::byte> expanded(fp8.row_bytes());
    ASSERT_EQ(Transcoder::create(from, fp8, {})->run(row.data(), 1, expanded.data()), 1u);
    for (std::size_t i = 0; i < kDim; ++i) {
      ASSERT_EQ(defined_value(from, row.data(), i), defined_value(fp8, expanded.data(), i)) << i;
    }
  }
}

TEST(RowFormats, NarrowEveryHalfAndE4m3BackToItself) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = float_from_half(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(half_from_float(value), bits);
  }
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) continue;
    ASSERT_EQ(e4m3_from_float(float_from_e4m3(static_cast<std::uint8_t>(code))), code);
  }
  EXPECT_EQ(half_from_float(65520.0f), 0x7C00);  // half way to 65536 goes to even: infinity
  EXPECT_EQ(half_from_float(65519.0f), 0x7BFF);
  EXPECT_EQ(half_from_float(1.00048828125f), 0x3C00);  // 1 + 2^-11: a tie, to even
  EXPECT_EQ(e4m3_from_float(464.0f), 0x7E);
  EXPECT_EQ(e4m3_from_float(1e30f), 0x7E);
  EXPECT_EQ(e4m3_from_float(1.0625f), 0x38);  // a tie, to even
  EXPECT_EQ(e4m3_from_float(-0x1p-10f), 0x80);
}

}  // namespace
}  // namespace engram
