// Constants: computed against published ones, adopted ones checked.
#include <gtest/gtest.h>

#include "engram/hash.hpp"

#include "tests/support/golden.hpp"
#include "tests/support/hash_fixture.hpp"
#include "tests/support/matchers.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

std::vector<LayerHash> layers_of(const HashSpec& spec) {
  return {spec.layers().begin(), spec.layers().end()};
}

TEST(HashSpec, ComputesThePublishedConstants) {
  const JsonElement expect = test::at(test::golden("real-constants"), {"expect"});
  const auto spec = HashSpec::compute(test::v41_config());
  ASSERT_TRUE(is_ok(spec));
  for (std::size_t i = 0; i < 2; ++i) {
    const LayerHash& layer = spec->layers()[i];
    const auto row = [&](std::string_view name) {
      return test::flat<std::uint64_t>(test::at(expect, {name}).at(i).value_unsafe());
    };
    EXPECT_EQ(layer.multipliers, row("multipliers"));
    EXPECT_EQ(layer.primes, row("primes_flat"));
    EXPECT_EQ(layer.offsets, row("offsets"));
    EXPECT_EQ(layer.row_count, row("rows").front());
  }
}

TEST(HashSpec, SharesOneWalkOfPrimesBetweenLayers) {
  const auto spec = HashSpec::compute(test::toy_config());
  ASSERT_TRUE(is_ok(spec));
  EXPECT_EQ(spec->layers()[0].primes, (std::vector<std::uint64_t>{101, 103, 107, 109, 113, 127}));
  EXPECT_EQ(spec->layers()[1].primes, (std::vector<std::uint64_t>{131, 137, 139, 149, 151, 157}));
  EXPECT_EQ(spec->layers()[0].offsets, (std::vector<std::uint64_t>{0, 101, 204, 311, 420, 533}));
  EXPECT_EQ(spec->layers()[0].multipliers,
            (std::vector<std::uint64_t>{474601728838414575, 29974562614913953, 222707240591810233,
                                        458222077714189081}));
  EXPECT_EQ(spec->layers()[1].multipliers,
            (std::vector<std::uint64_t>{419387138110930439, 319019304219773019, 191503633563254671,
                                        511681524431897123}));
}

TEST(HashSpec, StartsToyLayoutsAtSmallPrimes) {
  HashConfig config = test::toy_config();
  config.first_prime_at_least = 59;
  const auto spec = HashSpec::compute(config);
  ASSERT_TRUE(is_ok(spec));
  EXPECT_EQ(spec->layers()[0].primes, (std::vector<std::uint64_t>{59, 61, 67, 71, 73, 79}));
}

TEST(HashSpec, TakesAnyLayout) {
  for (const int max_order : {2, 3, 8}) {
    for (const int heads : {1, 3, 13}) {
      HashConfig config = test::toy_config();
      config.layer_ids = {0, 7, 5};
      config.max_order = max_order;
      config.heads = heads;
      const auto spec = HashSpec::compute(config);
      ASSERT_TRUE(is_ok(spec));
      EXPECT_EQ(spec->layers().size(), 3u);
      EXPECT_EQ(spec->layers()[2].primes.size(), static_cast<std::size_t>((max_order - 1) * heads));
      EXPECT_TRUE(is_ok(HashSpec::from_constants(config, layers_of(*spec))));
    }
  }
}

TEST(HashSpec, RefusesBadConfigs) {
  const auto refused = [](auto change, const std::string& words) {
    HashConfig config = test::toy_config();
    change(config);
    EXPECT_TRUE(fails(HashSpec::compute(config), Code::invalid_argument, words));
  };
  refused([](HashConfig& c) { c.layer_ids = {}; }, "engram layers");
  refused([](HashConfig& c) { c.layer_ids = {1, 1}; }, "distinct");
  refused([](HashConfig& c) { c.layer_ids = {-1}; }, "layer id");
  refused([](HashConfig& c) { c.max_order = 1; }, "2..8");
  refused([](HashConfig& c) { c.max_order = 9; }, "2..8");
  refused([](HashConfig& c) { c.heads = 0; }, "heads");
  refused([](HashConfig& c) { c.first_prime_at_least = 0; }, "engram vocabulary");
  refused([](HashConfig& c) { c.compressed_size = 0; }, "compressed");
  refused([](HashConfig& c) { c.pad = 16; }, "pad");
  refused([](HashConfig& c) { c.pad = kDead; }, "pad");
}

TEST(HashSpec, RefusesCompressedSizesOfNumpysOtherGenerator) {
  HashConfig config = test::toy_config();
  config.compressed_size = (std::int64_t{1} << 30) + 1;
  EXPECT_TRUE(fails(HashSpec::compute(config), Code::unsupported, "32-bit"));
}

TEST(HashSpec, AdoptsAFilesConstantsOnlyIfTheyHold) {
  const auto spec = HashSpec::compute(test::toy_config());
  ASSERT_TRUE(is_ok(spec));
  const auto refused = [&](auto change, const std::string& words) {
    auto layers = layers_of(*spec);
    change(layers);
    EXPECT_TRUE(fails(HashSpec::from_constants(test::toy_config(), layers), Code::corrupt, words));
  };
  EXPECT_TRUE(is_ok(HashSpec::from_constants(test::toy_config(), layers_of(*spec))));
  refused([](auto& l) { l.pop_back(); }, "expected 2 layers");
  refused([](auto& l) { l[0].multipliers[1] = 4; }, "multiplier 1: expected an odd number");
  refused([](auto& l) { l[0].multipliers[0] = 576460752303423489; }, "multiplier 0");
  refused([](auto& l) { l[1].primes[2] = 141; }, "141 is not a prime");
  refused([](auto& l) { l[1].primes[0] = 101; }, "used twice");
  refused([](auto& l) { l[0].offsets[3] = 310; }, "offset: expected 311, found 310");
  refused([](auto& l) { l[0].offsets[3] = std::uint64_t{1} << 31; }, "offset: expected 311");
  refused([](auto& l) { l[0].row_count = 659; }, "row count: expected 660, found 659");
  refused([](auto& l) { l[0].layer_id = 2; }, "expected layer 1");
}

TEST(HashSpec, NamesTheFirstConstantThatDiffers) {
  // A converter that stored 47-bit multipliers as int32.
  const auto spec = HashSpec::compute(test::v41_config());
  ASSERT_TRUE(is_ok(spec));
  auto layers = layers_of(*spec);
  layers[0].multipliers[1] = static_cast<std::uint32_t>(layers[0].multipliers[1]);
  const auto truncated = HashSpec::from_constants(test::v41_config(), layers);
  ASSERT_TRUE(is_ok(truncated));
  EXPECT_TRUE(fails(spec->expect_equal(*truncated, "a.gguf"), Code::corrupt,
                    "a.gguf: layer 1: multiplier 1: expected 4839876093313"));
  EXPECT_TRUE(is_ok(spec->expect_equal(*spec, "itself")));
}

}  // namespace
}  // namespace engram
