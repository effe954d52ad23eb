// The vector remainder against %, where a wrong reciprocal would show.
#include "simd/modulo.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/hash_fixture.hpp"
#include "tests/support/random.hpp"
#include "tests/support/targets.hpp"

namespace engram::simd {
namespace {

struct Table {
  std::vector<std::uint64_t> primes;
  std::vector<std::uint64_t> offsets;
  std::vector<double> reciprocals;
  std::size_t heads;

  Table(std::vector<std::uint64_t> with, std::size_t heads_per_order)
      : primes(std::move(with)), heads(heads_per_order) {
    std::uint64_t sum = 0;
    for (const std::uint64_t prime : primes) {
      offsets.push_back(sum);
      reciprocals.push_back(1.0 / static_cast<double>(prime));
      sum += prime;
    }
  }
  ModuloTable view() const { return {primes, offsets, reciprocals, heads}; }
};

void expect_equal(const Table& table, const std::vector<std::uint64_t>& keys) {
  std::vector<std::int64_t> expected(keys.size() * table.heads);
  std::vector<std::int64_t> found(expected.size(), -1);
  rows_from_keys_scalar(table.view(), keys, expected);
  rows_from_keys(table.view(), keys, found);
  ASSERT_EQ(found, expected);
}

// Multiples of every prime, one below and one above, near 2^63, plus random keys.
std::vector<std::uint64_t> hostile_keys(const Table& table) {
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  std::vector<std::uint64_t> keys = {0, 1, 2, kTop - 1, kTop - 2};
  test::Random random(3);
  for (const std::uint64_t prime : table.primes) {
    const std::uint64_t last = (kTop - 1) / prime;
    for (std::uint64_t back = 0; back < 40; ++back) {
      const std::uint64_t multiple = (last - back) * prime;
      for (const std::uint64_t key : {multiple - 1, multiple, multiple + 1}) {
        if (key < kTop) keys.push_back(key);
      }
      const std::uint64_t anywhere = random.below(last) * prime;
      keys.insert(keys.end(), {anywhere, anywhere + 1, anywhere + prime - 1});
    }
  }
  for (int i = 0; i < 10000; ++i) keys.push_back(random.next() >> 1);
  return keys;
}

// Every key with every order, so that each meets each prime.
void check_everywhere(const Table& table) {
  const std::size_t orders = table.primes.size() / table.heads;
  std::vector<std::uint64_t> keys;
  for (const std::uint64_t key : hostile_keys(table)) keys.insert(keys.end(), orders, key);
  test::for_each_target([&] { expect_equal(table, keys); });
}

TEST(Modulo, IsExactForTheReleasesPrimes) {
  const auto spec = HashSpec::compute(test::v41_config());
  ASSERT_TRUE(spec);
  for (const LayerHash& layer : spec->layers()) check_everywhere(Table(layer.primes, 8));
}

TEST(Modulo, IsExactAtTheEdgesOfTheVectorRange) {
  check_everywhere(Table({8209, 8219, 1073741789, 1073741783, 8221, 16777259}, 2));
  check_everywhere(Table({8209}, 1));
}

TEST(Modulo, IsExactOutsideTheVectorRange) {
  check_everywhere(Table({2, 3, 101, 103}, 2));
  check_everywhere(Table({8191, 1073741827, 549755813881, 16000057}, 4));
}

TEST(Modulo, TakesAnyNumberOfHeads) {
  for (std::size_t heads = 1; heads <= 19; ++heads) {
    std::vector<std::uint64_t> primes(3 * heads);
    for (std::size_t i = 0; i < primes.size(); ++i) primes[i] = 16000057 + 2 * i;
    check_everywhere(Table(primes, heads));
  }
}

}  // namespace
}  // namespace engram::simd
