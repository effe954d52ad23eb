// Primality against trial division, and the composites that fool fewer bases.
#include "hash/prime.hpp"

#include <gtest/gtest.h>

namespace engram {
namespace {

bool by_trial_division(std::uint64_t n) {
  if (n < 2) return false;
  for (std::uint64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

TEST(Prime, AgreesWithTrialDivision) {
  for (std::uint64_t n = 0; n < 20000; ++n) ASSERT_EQ(is_prime(n), by_trial_division(n)) << n;
  for (std::uint64_t n = 16000000; n < 16001000; ++n) {
    ASSERT_EQ(is_prime(n), by_trial_division(n)) << n;
  }
}

TEST(Prime, KnowsItsOwnBases) {
  // With bases 2, 7 and 61 alone, 61 counts as composite.
  for (const std::uint64_t n : {2, 7, 61}) EXPECT_TRUE(is_prime(n)) << n;
}

TEST(Prime, RefusesStrongPseudoprimes) {
  EXPECT_FALSE(is_prime(3215031751u));           // to bases 2, 3, 5, 7
  EXPECT_FALSE(is_prime(341550071728321u));      // to bases up to 17
  EXPECT_FALSE(is_prime(3825123056546413051u));  // to bases up to 23
  EXPECT_FALSE(is_prime(18446744073709551615u));
  EXPECT_TRUE(is_prime(18446744073709551557u));  // the largest prime below 2^64
}

}  // namespace
}  // namespace engram
