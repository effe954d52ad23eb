// NumPy's generator, step by step, against traces recorded from NumPy.
#include "hash/numpy_random.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/golden.hpp"
#include "tests/support/matchers.hpp"

namespace engram {
namespace {

std::string hex(Uint128 value) {
  std::string digits;
  for (; value != 0; value >>= 4) digits += "0123456789abcdef"[static_cast<int>(value & 15)];
  return "0x" + std::string(digits.rbegin(), digits.rend());
}

TEST(NumpyRandom, ReproducesTheRecordedTraces) {
  const JsonElement vector = test::golden("pcg64-trace");
  for (const std::string_view layer : {"1", "14"}) {
    const JsonElement expect = test::at(vector, {"expect", layer});
    const auto seed = test::flat<std::uint64_t>(test::at(expect, {"seed"})).front();
    const auto pool = test::flat<std::uint32_t>(test::at(expect, {"pool_u32"}));
    const auto words = test::flat_unsigned<std::uint64_t>(test::at(expect, {"state_words_u64"}));
    const SeedSequence sequence(seed);
    EXPECT_EQ(std::vector(sequence.pool().begin(), sequence.pool().end()), pool);
    const auto state = sequence.state_words();
    EXPECT_EQ(std::vector(state.begin(), state.end()), words);
    Pcg64 generator(seed);
    EXPECT_EQ(hex(generator.state()),
              test::at(expect, {"pcg_state_hex"}).get_string().value_unsafe());
    EXPECT_EQ(hex(generator.increment()),
              test::at(expect, {"pcg_inc_hex"}).get_string().value_unsafe());
    for (const auto raw : test::flat_unsigned<std::uint64_t>(test::at(expect, {"first_raw_u64"}))) {
      EXPECT_EQ(generator.next(), raw);
    }
    Pcg64 bounded(seed);
    for (const auto value : test::flat<std::uint64_t>(test::at(expect, {"integers"}))) {
      const auto draw = bounded.below(46539438283891);
      ASSERT_TRUE(test::is_ok(draw));
      EXPECT_EQ(*draw, value);
    }
  }
}

TEST(NumpyRandom, RefusesBoundsThatNumpyDrawsFrom32Bits) {
  Pcg64 generator(1);
  EXPECT_TRUE(test::fails(generator.below(std::uint64_t{1} << 32), Code::unsupported, "32-bit"));
  EXPECT_TRUE(test::fails(generator.below(2), Code::unsupported, "32-bit"));
  EXPECT_TRUE(test::fails(generator.below(0), Code::invalid_argument, "1 or more"));
  EXPECT_TRUE(test::is_ok(generator.below((std::uint64_t{1} << 32) + 1)));
}

TEST(NumpyRandom, BoundOneTakesNoDraw) {
  Pcg64 generator(5);
  const auto before = generator.state();
  const auto draw = generator.below(1);
  ASSERT_TRUE(test::is_ok(draw));
  EXPECT_EQ(*draw, 0u);
  EXPECT_EQ(generator.state(), before);
}

}  // namespace
}  // namespace engram
