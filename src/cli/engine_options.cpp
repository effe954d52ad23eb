// The options with which subcommands open a model.
#include "cli/engine_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "cli/command.hpp"
#include "cli/names.hpp"
#include "cli/terminal.hpp"
#include "cli/token_input.hpp"

namespace engram::cli {

void add_codec_option(const Command& command, const std::string& flag, CheckpointOptions& options) {
  const auto set = [&options](const std::string& name) -> std::string {
    const auto format = row_format_from_name(name);
    if (!format) return format.error().message;
    options.declared_format = *format;
    return {};
  };
  command.add_setter(flag, set,
                     "Format of the tables where several fit and the model declares none");
}

int default_threads() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void add_threads_option(const Command& command, int& threads, const std::string& description) {
  threads = default_threads();
  command.add_option("--threads", threads, description).range(1, 1024);
}

void add_checkpoint_options(const Command& command, CheckpointOptions& options) {
  command.add_flag("--allow-spare-rows", options.allow_spare_rows,
                   "Accept tables with more rows than the primes need");
  add_codec_option(command, "--codec", options);
}

namespace {

// "1:2,3;14:2": orders 2 and 3 of layer 1, order 2 of layer 14.
Result<std::vector<LayerOrder>> parse_resident(const std::string& text) {
  std::vector<LayerOrder> result;
  const auto error = [&] {
    return usage_error(fmt::format("--resident: expected LAYER:ORDER,ORDER;..., found '{}'", text));
  };
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    const std::size_t colon = text.find(':', at);
    if (colon >= end) return error();
    const auto layer = parse_numbers(text.substr(at, colon - at), "--resident");
    const auto orders = parse_numbers(text.substr(colon + 1, end - colon - 1), "--resident");
    if (!layer || layer->size() != 1 || !orders || orders->empty()) return error();
    for (const std::int64_t order : *orders) {
      result.push_back({layer->front(), static_cast<int>(std::clamp<std::int64_t>(order, -1, 99))});
    }
    at = end + 1;
  }
  return result;
}

// mmap, ram, direct, auto, shared:NAME or sharded:TIER; the error otherwise.
std::string set_tier(const std::string& text, StoreOptions& store, RankOptions& ranks) {
  constexpr std::string_view shared = "shared:";
  constexpr std::string_view sharded = "sharded";
  if (text.starts_with(sharded)) {
    ranks.sharded = true;
    const std::string own = text.substr(sharded.size());
    if (own.empty()) return {};
    if (own[0] == ':') return set_tier(own.substr(1), store, ranks);
  }
  if (text.starts_with(shared)) {
    store.tier = Tier::shared;
    store.shared.name = text.substr(shared.size());
    return {};
  }
  const auto found = kTiers.find(text);
  if (found == kTiers.end()) return "expected mmap, ram, direct, shared:NAME, sharded:TIER or auto";
  store.tier = found->second;
  return {};
}

void add_tier_option(const Command& command, ModelOptions& options) {
  command.add_setter(
      "--tier",
      [&options](const std::string& text) {
        return set_tier(text, options.engine.store, options.ranks);
      },
      "Where rows are read from: mmap, ram, direct, shared:NAME (see engram load), auto, or "
      "sharded:TIER (over the ranks of mpirun)",
      "mmap");
  command
      .add_option("--wait", options.wait_seconds, "Tier shared: seconds to wait until it is filled")
      .range(0.0, 1e6);
}

void add_ram_options(const Command& command, StoreOptions& store, std::string& resident) {
  command.add_choice("--pages", store.ram.pages, kHugePages,
                     "Tier ram: transparent, 2m or 1g (reserved ones)");
  command.add_choice("--numa", store.ram.numa, kNumaPolicies,
                     "Tier ram: local, interleave, or copies (a whole table on each node)");
  command.add_flag("--lock", store.ram.lock, "Tier ram: never swap");
  command.add_flag("--serve-while-loading", store.ram.serve_while_loading,
                   "Tier ram: begin at once, with rows from the files until theirs are loaded");
  command.add_option("--resident", resident,
                     "Tier ram: only these orders of these layers in memory: 1:2,3;14:2");
}

}  // namespace

void ModelOptions::add_options(const Command& command) {
  engine.store.threads = default_threads();
  command.add_option("MODEL", model, "Model directory").required();
  command.add_option("--tokenizer", engine.tokenizer_path,
                     "tokenizer.json to use instead of the model's own");
  command.add_option("--token-map-sha256", engine.token_map_sha256,
                     "Digest that the token map must have");
  add_checkpoint_options(command, engine.checkpoint);
}

void ModelOptions::add_tier_options(const Command& command) {
  add_tier_option(command, *this);
  add_rank_options(command, ranks);
  command.add_choice("--read-method", engine.store.read_method, kReadMethods,
                     "How tier direct reads: auto, uring, readahead or threads");
  command.add_flag("!--scales-on-disk", engine.store.resident_scales,
                   "Tier direct: leave scale tensors on disk, a second read for each row");
  command.add_bytes("--cache", engine.cache_bytes,
                    "Memory for rows of n-grams met before, in bytes (K, M, G: powers of 1024)");
  command.add_option("--hot", hot, "N-grams to fill the cache with (see engram profile)");
  add_ram_options(command, engine.store, resident);
  command.add_choice("--nan", engine.nan_policy, kNanPolicies,
                     "NaN and infinite rows: propagate or reject");
  add_threads_option(command, engine.store.threads, "Threads for loading and for the gate");
}

Result<Engine> open_engine(const ModelOptions& options, Load load) {
  EngineOptions engine = options.engine;
  engine.load = load;
  engine.store.shared.wait =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.wait_seconds * 1e3));
  if (!options.resident.empty()) {
    auto resident = parse_resident(options.resident);
    if (!resident) return std::move(resident).error();
    engine.resident = *std::move(resident);
  }
  engine.store.progress = progress_bar("loading");
  OpenStores open_stores;
  std::string model = options.model;
  if (options.ranks.sharded && load != Load::addresses) {
    auto ranks = open_ranks(options.ranks);
    if (!ranks) return std::move(ranks).error();
    open_stores = *std::move(ranks);
    model = rank_directory(model);
  }
  auto opened = Engine::open(model, engine, open_stores);
  if (opened && !opened->tier_reason().empty()) {
    const Tier tier = opened->memory()->store(0).report().tier;
    fmt::print(stderr, "tier {}: {}\n", tier_name(tier), opened->tier_reason());
  }
  return opened;
}

Result<std::jthread> warm_behind(const ModelOptions& options, const Engine& engine) {
  if (options.hot.empty()) return std::jthread();
  if (engine.memory()->cache_capacity() == 0) return usage_error("--hot: needs --cache");
  auto ngrams = read_hot_set(options.hot, engine);
  if (!ngrams) return std::move(ngrams).error();
  return std::jthread([ngrams = *std::move(ngrams), &engine](const std::stop_token& stop) {
    const Status status =
        engine.memory()->warm(ngrams, progress_bar("warming", Counts::other), stop);
    if (!status && !stop.stop_requested()) {
      fmt::print(stderr, "engram: --hot: {}\n", status.error().message);
    }
  });
}

std::string tokenizer_path(const ModelOptions& options, const Engine& engine) {
  return options.engine.tokenizer_path.empty() ? engine.checkpoint().tokenizer_path()
                                               : options.engine.tokenizer_path;
}

}  // namespace engram::cli
