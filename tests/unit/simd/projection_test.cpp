// Matrix products against binary64, and the same bits for any split of the tokens.
#include "simd/projection.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/bfloat16.hpp"
#include "simd/fp8.hpp"
#include "tests/support/random.hpp"
#include "tests/support/targets.hpp"

namespace engram::simd {
namespace {

struct Problem {
  std::size_t rows;
  std::size_t columns;
  std::size_t tokens;
  std::vector<float> x;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  std::vector<std::uint16_t> bfloat16;

  Problem(std::size_t with_rows, std::size_t with_columns, std::size_t with_tokens)
      : rows(with_rows), columns(with_columns), tokens(with_tokens) {
    test::Random random(rows * 1000 + columns + tokens);
    for (std::size_t i = 0; i < tokens * columns; ++i) x.push_back(random.symmetric());
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const auto code = static_cast<std::uint8_t>(random.next());
      codes.push_back((code & 0x7F) == 0x7F ? code ^ 1 : code);
      bfloat16.push_back(bfloat16_from_float(random.symmetric()));
    }
    for (std::size_t i = 0; i < columns / kFp8Group; ++i) {
      scales.push_back(static_cast<std::uint8_t>(110 + random.below(20)));
    }
  }

  Projection into(std::vector<float>& y) const {
    y.assign(tokens * rows, NAN);
    return {rows, columns, tokens, x.data(), y.data(), rows};
  }
};

// n additions in binary32 differ from the exact sum by at most n * 2^-24 * sum |terms|; lanes make
// n smaller, so columns bounds it.
void expect_near(const Problem& p, const std::vector<float>& found,
                 const std::vector<float>& expected, auto weight) {
  for (std::size_t token = 0; token < p.tokens; ++token) {
    for (std::size_t row = 0; row < p.rows; ++row) {
      double magnitude = 0;
      for (std::size_t column = 0; column < p.columns; ++column) {
        magnitude +=
            std::fabs(static_cast<double>(weight(row, column)) * p.x[token * p.columns + column]);
      }
      const std::size_t at = token * p.rows + row;
      ASSERT_NEAR(found[at], expected[at],
                  magnitude * static_cast<double>(p.columns) * 0x1p-24 + 1e-30)
          << "token " << token << " row " << row;
    }
  }
}

TEST(Projection, Fp8MatchesBinary64OnEveryTarget) {
  for (const auto& [rows, columns, tokens] :
       {std::tuple{32, 192, 1}, {32, 64, 9}, {7, 96, 6}, {1, 32, 3}}) {
    const Problem p(rows, columns, tokens);
    std::vector<float> expected;
    project_fp8_scalar(p.into(expected), p.codes.data(), p.scales.data());
    test::for_each_target([&] {
      std::vector<float> found;
      std::vector<float> scratch(p.tokens * p.columns);
      project_fp8(p.into(found), p.codes.data(), p.scales.data(), scratch.data());
      expect_near(p, found, expected, [&](std::size_t row, std::size_t column) {
        return std::bit_cast<float>(
            fp8_value_bits(p.codes[row * p.columns + column], p.scales[column / kFp8Group]));
      });
    });
  }
}

TEST(Projection, Fp8DecodesEveryCode) {
  // One row per code, one column of ones: the sum is 32 times the value.
  for (int first = 0; first < 256; first += 32) {
    Problem p(32, 32, 1);
    for (std::size_t i = 0; i < p.codes.size(); ++i) {
      p.codes[i] = static_cast<std::uint8_t>(first + static_cast<int>(i / 32));
      if ((p.codes[i] & 0x7F) == 0x7F) p.codes[i] = 0;
    }
    p.x.assign(p.x.size(), 1.0f);
    p.scales[0] = 127;
    test::for_each_target([&] {
      std::vector<float> found;
      std::vector<float> scratch(32);
      project_fp8(p.into(found), p.codes.data(), p.scales.data(), scratch.data());
      for (std::size_t row = 0; row < 32; ++row) {
        ASSERT_EQ(found[row], 32 * std::bit_cast<float>(fp8_value_bits(p.codes[row * 32], 127)));
      }
    });
  }
}

TEST(Projection, Bfloat16MatchesBinary64OnEveryTarget) {
  for (const auto& [rows, columns, tokens] :
       {std::tuple{32, 192, 1}, {5, 100, 9}, {3, 7, 2}, {9, 33, 4}}) {
    const Problem p(rows, columns, tokens);
    std::vector<float> expected;
    project_bfloat16_scalar(p.into(expected), p.bfloat16.data());
    test::for_each_target([&] {
      std::vector<float> found;
      project_bfloat16(p.into(found), p.bfloat16.data());
      expect_near(p, found, expected, [&](std::size_t row, std::size_t column) {
        return float_from_bfloat16(p.bfloat16[row * p.columns + column]);
      });
    });
  }
}

TEST(Projection, GivesTheSameBitsForAnySplitOfTheTokens) {
  const Problem p(32, 192, 11);
  test::for_each_target([&] {
    std::vector<float> whole;
    std::vector<float> scratch(p.tokens * p.columns);
    project_fp8(p.into(whole), p.codes.data(), p.scales.data(), scratch.data());
    for (std::size_t count = 1; count < p.tokens; ++count) {
      std::vector<float> split(p.tokens * p.rows, NAN);
      for (std::size_t first = 0; first < p.tokens; first += count) {
        const Projection part{p.rows,
                              p.columns,
                              std::min(count, p.tokens - first),
                              p.x.data() + first * p.columns,
                              split.data() + first * p.rows,
                              p.rows};
        project_fp8(part, p.codes.data(), p.scales.data(), scratch.data());
      }
      ASSERT_EQ(split, whole) << count << " tokens at a time";
    }
  });
}

}  // namespace
}  // namespace engram::simd
