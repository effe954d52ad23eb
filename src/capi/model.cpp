// The C interface of models: open, describe, hash, look up.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "capi/handles.hpp"

using namespace engram;        // NOLINT(google-build-using-namespace): one file, its own module
using namespace engram::capi;  // NOLINT(google-build-using-namespace)

namespace {

Error bad_option(const char* name, int32_t found) {
  return Error{Code::invalid_argument, 0,
               std::string("options.") + name + ": found " + std::to_string(found)};
}

// The fields that the caller's version of the struct has; the rest stay zero.
Result<engram_model_options> read_options(const engram_model_options* given) {
  engram_model_options options{};
  if (given == nullptr) return options;
  constexpr std::size_t kFirstVersionBytes = 56;
  if (given->struct_bytes < kFirstVersionBytes) {
    return Error{
        Code::invalid_argument, 0,
        "options.struct_bytes: expected at least 56, found " + std::to_string(given->struct_bytes)};
  }
  std::memcpy(&options, given, std::min<std::size_t>(given->struct_bytes, sizeof(options)));
  return options;
}

}  // namespace

namespace engram::capi {

Result<EngineOptions> engine_options(const engram_model_options* given) {
  const auto options = read_options(given);
  if (!options) return options.error();
  EngineOptions result;
  switch (options->load) {
    case ENGRAM_LOAD_GATES:
      result.load = Load::gates;
      break;
    case ENGRAM_LOAD_ROWS:
      result.load = Load::rows;
      break;
    case ENGRAM_LOAD_ADDRESSES:
      result.load = Load::addresses;
      break;
    default:
      return bad_option("load", options->load);
  }
  switch (options->tier) {
    case ENGRAM_TIER_MMAP:
      result.store.tier = Tier::mmap;
      break;
    case ENGRAM_TIER_RAM:
      result.store.tier = Tier::ram;
      break;
    case ENGRAM_TIER_DIRECT:
      result.store.tier = Tier::direct;
      break;
    case ENGRAM_TIER_SHARED:
      if (options->shared_name == nullptr) return null_argument("options.shared_name");
      result.store.tier = Tier::shared;
      result.store.shared = {options->shared_name,
                             std::chrono::milliseconds(options->shared_wait_ms)};
      break;
    case ENGRAM_TIER_AUTO:
      result.store.tier = Tier::automatic;
      break;
    default:
      return bad_option("tier", options->tier);
  }
  result.cache_bytes = options->cache_bytes;
  if (options->nan_policy != ENGRAM_NAN_PROPAGATE && options->nan_policy != ENGRAM_NAN_REJECT) {
    return bad_option("nan_policy", options->nan_policy);
  }
  if (options->threads < 0) return bad_option("threads", options->threads);
  result.nan_policy =
      options->nan_policy == ENGRAM_NAN_REJECT ? NanPolicy::reject : NanPolicy::propagate;
  result.store.threads = std::max(1, options->threads);
  if (options->tokenizer_path != nullptr) result.tokenizer_path = options->tokenizer_path;
  if (options->token_map_sha256 != nullptr) result.token_map_sha256 = options->token_map_sha256;
  if (options->progress != nullptr) {
    result.store.progress = [call = options->progress, user = options->progress_user](
                                std::uint64_t done, std::uint64_t total) {
      call(user, done, total);
    };
  }
  return result;
}

}  // namespace engram::capi

namespace {

// What an operator may want to know of a model that has been opened, a sentence each.
void log_opened(const Engine& engine, const engram_model_options* given) {
  const auto options = read_options(given);
  const Memory* memory = engine.memory();
  if (!options || options->log == nullptr || memory == nullptr) return;
  const auto log = [&](const std::string& text) { options->log(options->log_user, text.c_str()); };
  if (!engine.tier_reason().empty()) log("tier auto: " + engine.tier_reason());
  for (int table = 0; table < memory->table_count(); ++table) {
    const StoreReport report = memory->store(table).report();
    log("layer " + std::to_string(memory->store(table).source().layer_id) + ": tier " +
        std::string(tier_name(report.tier)) + ", " + std::to_string(report.table_bytes) +
        " bytes of rows, " + std::to_string(report.resident_bytes) + " of them in memory, " +
        std::to_string(report.huge_bytes) + " in huge pages");
  }
}

// Checks what both lookups share, then calls `run(memory, input, output)`.
template <typename T, typename Run>
int32_t look_up(const engram_model* model, const T* input, std::size_t count, const char* name,
                const engram_workspace* workspace, const engram_row_output* output, Run run) {
  return guard([&]() -> Status {
    if (workspace == nullptr) return null_argument("workspace");
    const auto memory = tables_of(model);
    if (!memory) return memory.error();
    const auto in = span_of(input, count, name);
    if (!in) return in.error();
    const auto out = row_output(output);
    if (!out) return out.error();
    return run(**memory, *in, *out);
  });
}

}  // namespace

extern "C" {

int32_t engram_model_open(const char* directory, const engram_model_options* options,
                          engram_model** model) {
  return make_handle(model, [&]() -> Result<Engine> {
    if (directory == nullptr) return null_argument("directory");
    auto with = engine_options(options);
    if (!with) return std::move(with).error();
    auto engine = Engine::open(directory, *with);
    if (engine) log_opened(*engine, options);
    return engine;
  });
}

void engram_model_free(engram_model* model) { const std::unique_ptr<engram_model> owned(model); }

int32_t engram_model_describe(const engram_model* model, engram_model_info* info) {
  return guard([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (info == nullptr) return null_argument("info");
    const ModelConfig& config = model->engine.checkpoint().config();
    const HashSpec& spec = model->engine.hasher().spec();
    engram_model_info full{};
    full.struct_bytes = info->struct_bytes;
    full.layers = static_cast<int32_t>(spec.layers().size());
    full.orders = spec.config().orders();
    full.heads = spec.config().heads;
    full.head_dim = static_cast<int32_t>(config.head_dim);
    full.copies = static_cast<int32_t>(config.copies);
    full.hidden_dim = static_cast<int32_t>(config.hidden_dim);
    std::memcpy(info, &full, std::min<std::size_t>(info->struct_bytes, sizeof(full)));
    return {};
  });
}

int32_t engram_model_describe_layer(const engram_model* model, int32_t table_index,
                                    engram_layer_info* info) {
  return guard([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (info == nullptr) return null_argument("info");
    const auto layers = model->engine.hasher().spec().layers();
    if (table_index < 0 || static_cast<std::size_t>(table_index) >= layers.size()) {
      return Error{Code::out_of_range, 0,
                   "table_index: expected 0.." + std::to_string(layers.size() - 1) + ", found " +
                       std::to_string(table_index)};
    }
    const LayerHash& layer = layers[static_cast<std::size_t>(table_index)];
    const Memory* memory = model->engine.memory();
    engram_layer_info full{};
    full.struct_bytes = info->struct_bytes;
    full.layer_id = layer.layer_id;
    full.row_count = layer.row_count;
    if (memory != nullptr) {
      full.raw_bytes = static_cast<int32_t>(memory->output_bytes(table_index, OutputFormat::raw));
    }
    std::memcpy(info, &full, std::min<std::size_t>(info->struct_bytes, sizeof(full)));
    return {};
  });
}

int32_t engram_model_hash(const engram_model* model, const int32_t* tokens, const uint8_t* mask,
                          size_t count, const int64_t* query_start, const int32_t* lookback,
                          size_t sequences, uint64_t* keys) {
  return guard([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (query_start == nullptr) return null_argument("query_start");
    const Hasher& hasher = model->engine.hasher();
    const auto orders = static_cast<std::size_t>(hasher.spec().config().orders());
    const auto in = span_of(tokens, count, "tokens");
    if (!in) return in.error();
    const auto windows = span_of(lookback, sequences * orders, "lookback");
    if (!windows) return windows.error();
    const auto out = span_of(keys, hasher.spec().layers().size() * count * orders, "keys");
    if (!out) return out.error();
    const TokenBatch batch = {
        *in, {mask, mask == nullptr ? 0 : count}, {query_start, sequences + 1}, *windows};
    return hash_batch(model->engine.token_map(), hasher, batch, *out);
  });
}

int32_t engram_model_rows(const engram_model* model, int32_t table_index, const uint64_t* keys,
                          size_t key_count, int64_t* rows) {
  return guard([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    const Hasher& hasher = model->engine.hasher();
    const auto in = span_of(keys, key_count, "keys");
    if (!in) return in.error();
    const auto heads = static_cast<std::size_t>(hasher.spec().config().heads);
    const auto out = span_of(rows, key_count * heads, "rows");
    if (!out) return out.error();
    return hasher.rows(table_index, *in, *out);
  });
}

int32_t engram_workspace_create(engram_workspace** workspace) {
  return make_handle(workspace, []() -> Result<LookupWorkspace> { return LookupWorkspace(); });
}

void engram_workspace_free(engram_workspace* workspace) {
  const std::unique_ptr<engram_workspace> owned(workspace);
}

int32_t engram_model_lookup(const engram_model* model, int32_t table_index, const uint64_t* keys,
                            size_t key_count, engram_workspace* workspace,
                            const engram_row_output* output) {
  return look_up(model, keys, key_count, "keys", workspace, output,
                 [&](const Memory& memory, auto in, const RowOutput& out) {
                   return memory.lookup(table_index, in, out, workspace->workspace);
                 });
}

int32_t engram_model_lookup_rows(const engram_model* model, int32_t table_index,
                                 const int64_t* rows, size_t row_count, engram_workspace* workspace,
                                 const engram_row_output* output) {
  return look_up(model, rows, row_count, "rows", workspace, output,
                 [&](const Memory& memory, auto in, const RowOutput& out) {
                   return memory.lookup_rows(table_index, in, out, workspace->workspace);
                 });
}

}  // extern "C"
