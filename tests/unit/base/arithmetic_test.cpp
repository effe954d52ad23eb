// Checked sums, bfloat16 rounding, parallel_for.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "base/bfloat16.hpp"
#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/sha256.hpp"
#include "tests/support/matchers.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Checked, RefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
  EXPECT_EQ(checked_multiply(1ull << 32, 1ull << 31), 1ull << 63);
  EXPECT_FALSE(checked_multiply(1ull << 33, 1ull << 33));
  EXPECT_TRUE(range_fits(8, 0, 8));
  EXPECT_TRUE(range_fits(0, 8, 8));
  EXPECT_FALSE(range_fits(1, 8, 8));
  EXPECT_FALSE(range_fits(9, 0, 8));
  EXPECT_FALSE(range_fits(4, kMax, 8));
}

TEST(Bfloat16, WideningThenNarrowingKeepsEveryPattern) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = float_from_bfloat16(half);
    const std::uint16_t expected = std::isnan(wide) ? half | 0x40 : half;
    ASSERT_EQ(bfloat16_from_float(wide), expected) << std::hex << bits;
  }
}

TEST(Bfloat16, RoundsTiesToEven) {
  EXPECT_EQ(bfloat16_from_float_bits(0x3F808000), 0x3F80);  // tie, even below
  EXPECT_EQ(bfloat16_from_float_bits(0x3F818000), 0x3F82);  // tie, even above
  EXPECT_EQ(bfloat16_from_float_bits(0x3F808001), 0x3F81);
  EXPECT_EQ(bfloat16_from_float_bits(0x7F7FFFFF), 0x7F80);  // overflows to infinity
  EXPECT_EQ(bfloat16_from_float_bits(0x7F800001), 0x7FC0);  // a NaN stays one
  EXPECT_EQ(bfloat16_from_float_bits(0x80000000), 0x8000);
}

TEST(ParallelFor, VisitsEveryPieceOnce) {
  for (const int threads : {0, 1, 2, 7}) {
    std::vector<std::atomic<int>> visits(100);
    const Status status = parallel_for(visits.size(), threads, [&](std::size_t piece) -> Status {
      visits[piece].fetch_add(1);
      return {};
    });
    EXPECT_TRUE(test::is_ok(status));
    for (const auto& count : visits) EXPECT_EQ(count.load(), 1);
  }
}

TEST(ParallelFor, ReturnsTheFailureOfAPiece) {
  const Status status = parallel_for(50, 3, [](std::size_t piece) -> Status {
    if (piece == 17) return make_error(Code::io, "piece {}", piece);
    return {};
  });
  EXPECT_TRUE(test::fails(status, Code::io, "piece 17"));
}

TEST(Sha256, MatchesFips180) {
  const std::string text = "abc";
  const auto digest = sha256_hex(std::as_bytes(std::span(text)));
  ASSERT_TRUE(digest);
  EXPECT_EQ(*digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace engram
