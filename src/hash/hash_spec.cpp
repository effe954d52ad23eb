// The constants of a hash: computed from the config, or adopted from a file and checked.
#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "engram/hash.hpp"

#include "base/error.hpp"
#include "hash/numpy_random.hpp"
#include "hash/prime.hpp"

namespace engram {
namespace {

constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

// Bounds that keep every product of the hash and every row count far inside 63 bits, and the
// prime walk short. V4.1 has 2 layers, 8 heads and 16,000,000.
constexpr std::size_t kLayersMax = 256;
constexpr int kHeadsMax = 256;
constexpr std::int64_t kColumnsMax = 1 << 14;  // over all layers
constexpr std::int64_t kPrimeMax = std::int64_t{1} << 40;
constexpr std::int64_t kLayerIdMax = std::int64_t{1} << 32;

// Seed of a layer's multipliers: the real layer id times this. Reference: inference/engram.py.
constexpr std::uint64_t kSeedPerLayer = 10007;

// Multipliers are 2v + 1 for v below this, so that id * multiplier stays below 2^63.
std::uint64_t multiplier_bound(std::int64_t compressed_size) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, kInt64Max / compressed_size / 2));
}

Result<std::vector<std::uint64_t>> compute_multipliers(const HashConfig& config,
                                                       std::int64_t layer_id) {
  Pcg64 generator(kSeedPerLayer * static_cast<std::uint64_t>(layer_id));
  std::vector<std::uint64_t> multipliers;
  for (int distance = 0; distance < config.max_order; ++distance) {
    const auto draw = generator.below(multiplier_bound(config.compressed_size));
    if (!draw) return draw.error();
    multipliers.push_back(2 * *draw + 1);
  }
  return multipliers;
}

void set_offsets(LayerHash& layer) {
  layer.offsets.clear();
  layer.row_count = 0;
  for (const std::uint64_t prime : layer.primes) {
    layer.offsets.push_back(layer.row_count);
    layer.row_count += prime;
  }
}

Status check_multipliers(const HashConfig& config, const LayerHash& layer) {
  const auto limit = static_cast<std::uint64_t>(kInt64Max / config.compressed_size);
  for (std::size_t i = 0; i < layer.multipliers.size(); ++i) {
    const std::uint64_t multiplier = layer.multipliers[i];
    if (multiplier % 2 == 1 && multiplier <= limit) continue;
    return make_error(Code::corrupt,
                      "layer {}: multiplier {}: expected an odd number up to {} (2^63 / compressed "
                      "size), found {}",
                      layer.layer_id, i, limit, multiplier);
  }
  return {};
}

Status check_layer(const HashConfig& config, const LayerHash& layer, std::int64_t layer_id,
                   std::set<std::uint64_t>& seen) {
  const auto columns = static_cast<std::size_t>(config.columns());
  if (layer.layer_id != layer_id || layer.primes.size() != columns ||
      layer.offsets.size() != columns ||
      layer.multipliers.size() != static_cast<std::size_t>(config.max_order)) {
    return make_error(Code::corrupt,
                      "constants of layer {}: expected layer {} with {} primes, {} offsets and {} "
                      "multipliers, found {}, {} and {}",
                      layer.layer_id, layer_id, columns, columns, config.max_order,
                      layer.primes.size(), layer.offsets.size(), layer.multipliers.size());
  }
  ENGRAM_TRY(check_multipliers(config, layer));
  std::uint64_t sum = 0;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::uint64_t prime = layer.primes[column];
    if (prime > static_cast<std::uint64_t>(kPrimeMax) || !is_prime(prime)) {
      return make_error(Code::corrupt, "layer {}: column {}: {} is not a prime up to 2^40",
                        layer_id, column, prime);
    }
    if (!seen.insert(prime).second) {
      return make_error(Code::corrupt, "layer {}: column {}: prime {} is used twice", layer_id,
                        column, prime);
    }
    if (layer.offsets[column] != sum) {
      return make_error(Code::corrupt, "layer {}: column {}: offset: expected {}, found {}",
                        layer_id, column, sum, layer.offsets[column]);
    }
    sum += prime;
  }
  if (layer.row_count != sum) {
    return make_error(Code::corrupt, "layer {}: row count: expected {}, found {}", layer_id, sum,
                      layer.row_count);
  }
  return {};
}

}  // namespace

Status HashConfig::validate() const {
  const auto refuse = [](std::string_view what, std::string_view expected, std::int64_t found) {
    return make_error(Code::invalid_argument, "{}: expected {}, found {}", what, expected, found);
  };
  if (layer_ids.empty() || layer_ids.size() > kLayersMax) {
    return refuse("engram layers", "1..256 of them", static_cast<std::int64_t>(layer_ids.size()));
  }
  std::set<std::int64_t> distinct;
  for (const std::int64_t id : layer_ids) {
    if (id < 0 || id > kLayerIdMax) return refuse("engram layer id", "0..2^32", id);
    if (!distinct.insert(id).second) return refuse("engram layer id", "distinct ids", id);
  }
  if (max_order < 2 || max_order > kOrderLimit) return refuse("max n-gram", "2..8", max_order);
  if (heads < 1 || heads > kHeadsMax) return refuse("heads per order", "1..256", heads);
  const std::int64_t all_columns = static_cast<std::int64_t>(layer_ids.size()) * columns();
  if (all_columns > kColumnsMax) return refuse("columns of all layers", "1..16384", all_columns);
  if (first_prime_at_least < 1 || first_prime_at_least > kPrimeMax / 2) {
    return refuse("engram vocabulary size", "1..2^39", first_prime_at_least);
  }
  if (compressed_size < 1 || compressed_size > std::numeric_limits<CompressedId>::max()) {
    return refuse("compressed vocabulary size", "1..2^31-1", compressed_size);
  }
  if (pad < 0 || pad >= compressed_size) return refuse("pad", "a compressed id", pad);
  return {};
}

HashSpec::HashSpec(HashConfig config, std::vector<LayerHash> layers)
    : config_(std::move(config)), layers_(std::move(layers)) {}

Result<HashSpec> HashSpec::compute(const HashConfig& config) {
  ENGRAM_TRY(config.validate());
  std::vector<LayerHash> layers;
  // One set for all layers: the walk restarts for every order but never reuses a prime, so the
  // primes of all columns are consecutive.
  std::uint64_t candidate = static_cast<std::uint64_t>(config.first_prime_at_least) - 1;
  for (const std::int64_t layer_id : config.layer_ids) {
    LayerHash layer;
    layer.layer_id = layer_id;
    auto multipliers = compute_multipliers(config, layer_id);
    if (!multipliers) return with_context(std::move(multipliers).error(), "compressed size");
    layer.multipliers = *std::move(multipliers);
    for (int column = 0; column < config.columns(); ++column) {
      do {
        ++candidate;
      } while (!is_prime(candidate));
      layer.primes.push_back(candidate);
    }
    set_offsets(layer);
    layers.push_back(std::move(layer));
  }
  return HashSpec(config, std::move(layers));
}

Result<HashSpec> HashSpec::from_constants(const HashConfig& config, std::vector<LayerHash> layers) {
  ENGRAM_TRY(config.validate());
  if (layers.size() != config.layer_ids.size()) {
    return make_error(Code::corrupt, "constants: expected {} layers, found {}",
                      config.layer_ids.size(), layers.size());
  }
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    ENGRAM_TRY(check_layer(config, layers[i], config.layer_ids[i], seen));
  }
  return HashSpec(config, std::move(layers));
}

Status HashSpec::expect_equal(const HashSpec& other, std::string_view where) const {
  if (layers_.size() != other.layers_.size()) {
    return make_error(Code::corrupt, "{}: expected {} layers, found {}", where, layers_.size(),
                      other.layers_.size());
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto compare = [&](std::string_view name, const std::vector<std::uint64_t>& mine,
                             const std::vector<std::uint64_t>& theirs) -> Status {
      if (mine == theirs) return {};
      std::size_t at = 0;
      while (at < mine.size() && at < theirs.size() && mine[at] == theirs[at]) ++at;
      const auto show = [at](const std::vector<std::uint64_t>& values) {
        return at < values.size() ? std::to_string(values[at]) : std::string("nothing");
      };
      return make_error(Code::corrupt, "{}: layer {}: {} {}: expected {}, found {}", where,
                        layers_[i].layer_id, name, at, show(mine), show(theirs));
    };
    ENGRAM_TRY(compare("multiplier", layers_[i].multipliers, other.layers_[i].multipliers));
    ENGRAM_TRY(compare("prime", layers_[i].primes, other.layers_[i].primes));
    ENGRAM_TRY(compare("offset", layers_[i].offsets, other.layers_[i].offsets));
  }
  return {};
}

Result<int> HashSpec::table_index(std::int64_t layer_id) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].layer_id == layer_id) return static_cast<int>(i);
  }
  return make_error(Code::not_found, "layer {} has no engram table; layers that do: {}", layer_id,
                    fmt::join(config_.layer_ids, ", "));
}

}  // namespace engram
