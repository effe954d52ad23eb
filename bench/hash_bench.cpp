// How much faster is the vector remainder than the plain % loop? Per token and layer (24 rows of
// V4.1); keys are ready in cache, nothing else is inside the timed window. The "bound" is the loop.
#include <benchmark/benchmark.h>

#include <vector>

#include "engram/hash.hpp"

#include "bench/paired.hpp"
#include "simd/modulo.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

constexpr std::size_t kTokens = 2048;

void rows_from_keys(benchmark::State& state) {
  HashConfig config;
  config.layer_ids = {1, 14};
  config.first_prime_at_least = 16'000'000;
  config.compressed_size = 99'092;
  const auto spec = HashSpec::compute(config);
  if (!spec) return state.SkipWithError("no constants");
  const LayerHash& layer = spec->layers()[0];
  std::vector<double> reciprocals;
  for (const std::uint64_t prime : layer.primes) {
    reciprocals.push_back(1.0 / static_cast<double>(prime));
  }
  const simd::ModuloTable table{layer.primes, layer.offsets, reciprocals, 8};
  test::Random random(1);
  std::vector<std::uint64_t> keys(kTokens * 3);
  for (std::uint64_t& key : keys) key = random.next() >> 1;
  std::vector<std::int64_t> expected(kTokens * 24);
  std::vector<std::int64_t> found(kTokens * 24);
  bench::paired(
      state, kTokens, [&] { simd::rows_from_keys_scalar(table, keys, expected); },
      [&] { simd::rows_from_keys(table, keys, found); });
  if (found != expected) state.SkipWithError("wrong rows");
}
BENCHMARK(rows_from_keys)->UseManualTime();

}  // namespace
}  // namespace engram
