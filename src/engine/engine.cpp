// Opens a model: checkpoint, token map, constants, tables and gate weights, all checked.
#include "engram/engine.hpp"

#include <optional>

#include "base/error.hpp"
#include "engine/gate_weights.hpp"
#include "hash/partition.hpp"

namespace engram {
namespace {

// The geometry that the published token-map digest belongs to.
bool has_v41_vocabulary(const ModelConfig& config) {
  return config.vocab_size == 129280 && config.compressed_vocab_size == 99092;
}

// From the tokenizer, and from the model's own files where they carry a map; both must agree.
Result<TokenMap> open_token_map(const Checkpoint& checkpoint, const EngineOptions& options) {
  const std::string& path =
      options.tokenizer_path.empty() ? checkpoint.tokenizer_path() : options.tokenizer_path;
  const std::vector<CompressedId>& own = checkpoint.token_map();
  if (path.empty() && own.empty()) {
    return make_error(Code::not_found, "{}: no tokenizer.json; name one", checkpoint.directory());
  }
  const std::string& where = own.empty() ? path : checkpoint.directory();
  auto map = own.empty() ? TokenMap::from_tokenizer_file(path) : TokenMap::from_ids(own, where);
  if (!map) return map;
  const ModelConfig& config = checkpoint.config();
  ENGRAM_TRY(check_token_map(*map, config,
                             expected_token_map_sha256(options.token_map_sha256, config), where));
  if (own.empty() || path.empty()) return map;
  const auto given = TokenMap::from_tokenizer_file(path);
  if (!given) return given.error();
  ENGRAM_TRY(check_token_map(*given, config, map->sha256(), path));
  return map;
}

// The rows of every order that is to be resident, by layer.
Result<std::vector<LayerRows>> resident_rows(const HashSpec& spec, const EngineOptions& options) {
  std::vector<LayerRows> result = options.store.resident;
  for (const LayerOrder& wanted : options.resident) {
    const auto table = spec.table_index(wanted.layer_id);
    if (!table) return table.error();
    if (wanted.order < 2 || wanted.order > spec.config().max_order) {
      return make_error(Code::out_of_range, "resident: layer {}: expected order 2..{}, found {}",
                        wanted.layer_id, spec.config().max_order, wanted.order);
    }
    // The columns of an order follow each other: orders cut a table as whole heads cut it over
    // ranks.
    result.push_back(
        {wanted.layer_id, rows_by_heads(spec.layers()[static_cast<std::size_t>(*table)],
                                        static_cast<std::uint64_t>(spec.config().orders()),
                                        static_cast<std::uint64_t>(wanted.order - 2))});
  }
  return result;
}

// How a model's stores are opened: the caller's way, or the library's.
struct MemoryPlan {
  const Checkpoint& checkpoint;
  const TokenMap& map;
  const EngineOptions& options;
  const OpenStores& open_stores;
};

Result<Memory> open_memory(const MemoryPlan& plan, Hasher hasher, std::string& tier_reason) {
  const auto& [checkpoint, map, options, open_stores] = plan;
  StoreOptions with = options.store;
  if (with.tier == Tier::automatic) {
    auto choice = choose_tier(checkpoint.tables(), with);
    if (!choice) return std::move(choice).error();
    with.tier = choice->tier;
    tier_reason = std::move(choice->reason);
  }
  auto resident = resident_rows(hasher.spec(), options);
  if (!resident) return std::move(resident).error();
  with.resident = *std::move(resident);
  auto stores = open_stores ? open_stores(checkpoint, map, hasher.spec(), with)
                            : open_row_stores(checkpoint.tables(), with);
  if (!stores) return std::move(stores).error();
  return Memory::create(std::move(hasher), *std::move(stores), options.nan_policy,
                        options.cache_bytes);
}

Result<std::vector<LoadedGate>> open_gates(const Checkpoint& checkpoint,
                                           const EngineOptions& options) {
  if (!checkpoint.missing().empty()) {
    return make_error(Code::not_found, "{}: gate weights are missing: {}", checkpoint.directory(),
                      fmt::join(checkpoint.missing(), ", "));
  }
  const auto rotation = load_rotation(checkpoint);
  if (!rotation) return rotation.error();
  std::vector<LoadedGate> gates;
  for (const GateSource& source : checkpoint.gates()) {
    auto gate = load_gate(source, checkpoint.config(), *rotation, options.store.threads);
    if (!gate) return std::move(gate).error();
    gates.push_back(*std::move(gate));
  }
  return gates;
}

}  // namespace

std::string expected_token_map_sha256(const std::string& given, const ModelConfig& config) {
  if (!given.empty()) return given;
  if (!config.token_map_sha256.empty()) return config.token_map_sha256;
  return has_v41_vocabulary(config) ? std::string(kV41TokenMapSha256) : std::string();
}

Status check_token_map(const TokenMap& map, const ModelConfig& config, const std::string& sha256,
                       const std::string& where) {
  if (map.compressed_size() != config.compressed_vocab_size) {
    return make_error(Code::corrupt,
                      "{}: another model's tokenizer: expected {} compressed ids "
                      "(engram_compressed_vocab_size), found {}",
                      where, config.compressed_vocab_size, map.compressed_size());
  }
  const auto length = static_cast<std::int64_t>(map.ids().size());
  if (length > config.vocab_size || config.pad_token_id >= length) {
    return make_error(Code::corrupt,
                      "{}: another model's tokenizer: {} token ids, vocab_size {} and pad {}",
                      where, length, config.vocab_size, config.pad_token_id);
  }
  if (sha256.empty() || sha256 == map.sha256()) return {};
  return make_error(Code::corrupt,
                    "{}: another tokenizer of equal size: expected token map SHA-256 {}, found {}",
                    where, sha256, map.sha256());
}

struct Engine::Impl {
  Checkpoint checkpoint;
  TokenMap token_map;
  Hasher hasher;
  std::optional<Memory> memory;
  std::vector<LoadedGate> gates;
  int threads;
  std::string tier_reason;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::open(const std::string& model_directory, const EngineOptions& options,
                            const OpenStores& open_stores) {
  auto checkpoint = options.load == Load::addresses
                        ? Checkpoint::open_config(model_directory)
                        : Checkpoint::open(model_directory, options.checkpoint);
  if (!checkpoint) return std::move(checkpoint).error();
  const ModelConfig& config = checkpoint->config();
  auto map = open_token_map(*checkpoint, options);
  if (!map) return std::move(map).error();
  const CompressedId pad = map->ids()[static_cast<std::size_t>(config.pad_token_id)];
  auto spec = HashSpec::compute(config.hash_config(pad));
  if (!spec) return std::move(spec).error();
  const Hasher hasher(*std::move(spec));
  std::vector<LoadedGate> gates;
  if (options.load == Load::gates) {
    auto loaded = open_gates(*checkpoint, options);
    if (!loaded) return std::move(loaded).error();
    gates = *std::move(loaded);
  }
  std::optional<Memory> memory;
  std::string tier_reason;
  if (options.load != Load::addresses) {
    auto opened = open_memory({*checkpoint, *map, options, open_stores}, hasher, tier_reason);
    if (!opened) return std::move(opened).error();
    memory = *std::move(opened);
  }
  return Engine(std::make_unique<Impl>(Impl{*std::move(checkpoint), *std::move(map), hasher,
                                            std::move(memory), std::move(gates),
                                            options.store.threads, std::move(tier_reason)}));
}

const Checkpoint& Engine::checkpoint() const { return impl_->checkpoint; }
const TokenMap& Engine::token_map() const { return impl_->token_map; }
const Hasher& Engine::hasher() const { return impl_->hasher; }
const Memory* Engine::memory() const { return impl_->memory ? &*impl_->memory : nullptr; }
int Engine::threads() const { return impl_->threads; }
const std::string& Engine::tier_reason() const { return impl_->tier_reason; }

const Gate* Engine::gate(int table_index) const {
  const auto index = static_cast<std::size_t>(table_index);
  return index < impl_->gates.size() ? &impl_->gates[index].gate : nullptr;
}

}  // namespace engram
