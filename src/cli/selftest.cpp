// engram selftest: built-in vectors, then prefill against single steps on a model.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "engram/convert.hpp"
#include "engram/engine.hpp"

#include "cli/command.hpp"
#include "cli/demo_model.hpp"
#include "cli/engine_options.hpp"

namespace engram::cli {
namespace {

// A prefill followed by this many single-token steps, as in the reference's own self-test.
constexpr std::size_t kPrefill = 15;
constexpr std::size_t kSteps = 22;
constexpr std::size_t kTokens = kPrefill + kSteps;

Status expect(bool holds, std::string_view what) {
  if (holds) {
    fmt::print("ok    {}\n", what);
    return {};
  }
  return Error{Code::internal, 0, fmt::format("selftest: {}", what)};
}

// Published constants of DeepSeek-V4.1-Flash.
Status check_constants() {
  HashConfig config;
  config.layer_ids = {1, 14};
  config.first_prime_at_least = 16'000'000;
  config.compressed_size = 99'092;
  config.pad = 2;
  const auto spec = HashSpec::compute(config);
  if (!spec) return spec.error();
  const LayerHash& first = spec->layers()[0];
  const LayerHash& second = spec->layers()[1];
  ENGRAM_TRY(expect(first.multipliers == std::vector<std::uint64_t>{76632096046245, 4839876093313,
                                                                    35959672319349, 73987337458391},
                    "multipliers of layer 1 (NumPy's generator)"));
  ENGRAM_TRY(
      expect(second.multipliers == std::vector<std::uint64_t>{67716810739261, 51510806800915,
                                                              30921347202721, 82619226485591},
             "multipliers of layer 14 (NumPy's generator)"));
  return expect(first.row_count == 384'006'168 && second.row_count == 384'016'682 &&
                    first.primes.front() == 16'000'057 && second.primes.back() == 16'000'889,
                "primes and row counts of V4.1");
}

// A toy layout whose rows were computed by an independent implementation.
Status check_rows() {
  HashConfig config;
  config.layer_ids = {1, 14};
  config.heads = 2;
  config.first_prime_at_least = 101;
  config.compressed_size = 16;
  config.pad = 2;
  auto spec = HashSpec::compute(config);
  if (!spec) return std::move(spec).error();
  const Hasher hasher(*std::move(spec));
  const std::vector<CompressedId> ids = {5, 6, 7, 8};
  std::vector<Key> keys(2 * ids.size() * 3);
  ENGRAM_TRY(hasher.keys(ids, Lookback(), keys));
  std::vector<RowId> rows(6);
  ENGRAM_TRY(hasher.rows(0, std::span(keys).subspan(9, 3), rows));
  ENGRAM_TRY(expect(rows == std::vector<RowId>{100, 117, 233, 399, 489, 602},
                    "rows of a toy layout, layer 1"));
  ENGRAM_TRY(hasher.rows(1, std::span(keys).subspan(12 + 9, 3), rows));
  return expect(rows == std::vector<RowId>{106, 211, 383, 413, 603, 825},
                "rows of a toy layout, layer 14");
}

std::vector<TokenId> made_up_tokens(const TokenMap& map) {
  std::vector<TokenId> tokens(kTokens);
  for (std::size_t i = 0; i < kTokens; ++i) {
    // Repeats every 9 tokens, so that n-grams of all orders recur.
    tokens[i] = static_cast<TokenId>((i % 9 * 7919 + 3) % map.ids().size());
  }
  return tokens;
}

std::vector<std::uint8_t> made_up_mask() {
  std::vector<std::uint8_t> mask(kTokens, 1);
  for (const std::size_t dead : {6, 7, 8, 20}) mask[dead] = 0;
  return mask;
}

// Everything a timeline gives for a layer, in bytes.
struct Outcome {
  std::vector<Key> keys;
  std::vector<std::byte> rows;
  std::vector<float> stream;
  bool operator==(const Outcome&) const = default;
};

// Feeds tokens in the given chunks and gathers what they give at one layer.
Result<Outcome> run_chunks(const Engine& engine, std::int64_t layer_id,
                           std::span<const std::size_t> chunks) {
  const auto tokens = made_up_tokens(engine.token_map());
  const auto mask = made_up_mask();
  const auto table = engine.hasher().spec().table_index(layer_id);
  if (!table) return table.error();
  const GateShape& shape = engine.gate(*table)->shape();
  const std::size_t stream = shape.copies * shape.hidden_dim;
  const std::size_t token_bytes =
      static_cast<std::size_t>(engine.hasher().spec().config().columns()) *
      engine.memory()->output_bytes(*table, OutputFormat::bf16);
  Outcome outcome;
  outcome.rows.resize(kTokens * token_bytes);
  for (std::size_t i = 0; i < kTokens * stream; ++i) {
    outcome.stream.push_back(std::sin(static_cast<float>(i)));
  }
  Session session(engine);
  std::size_t first = 0;
  for (const std::size_t count : chunks) {
    ENGRAM_TRY(session.advance(std::span(tokens).subspan(first, count),
                               std::span(mask).subspan(first, count)));
    const auto keys = session.keys(layer_id);
    if (!keys) return keys.error();
    outcome.keys.insert(outcome.keys.end(), keys->begin(), keys->end());
    const auto rows = std::span(outcome.rows).subspan(first * token_bytes, count * token_bytes);
    ENGRAM_TRY(session.lookup(layer_id, {OutputFormat::bf16, rows, 0}));
    ENGRAM_TRY(session.apply(layer_id,
                             std::span(outcome.stream).subspan(first * stream, count * stream),
                             Rounding::none));
    first += count;
  }
  return outcome;
}

Status check_model(const Engine& engine) {
  const std::vector<std::size_t> one_shot = {kTokens};
  std::vector<std::size_t> steps = {kPrefill};
  steps.insert(steps.end(), kSteps, 1);
  for (const LayerHash& layer : engine.hasher().spec().layers()) {
    const auto whole = run_chunks(engine, layer.layer_id, one_shot);
    if (!whole) return whole.error();
    const auto stepped = run_chunks(engine, layer.layer_id, steps);
    if (!stepped) return stepped.error();
    ENGRAM_TRY(expect(*whole == *stepped,
                      fmt::format("layer {}: prefill and {} single steps equal one shot, bit for "
                                  "bit (keys, rows, residual)",
                                  layer.layer_id, kSteps)));
  }
  return {};
}

// The demo model's stored rows are known, so its lookups can be compared with them.
Status check_stored_rows(const Engine& engine) {
  for (std::size_t table = 0; table < engine.hasher().spec().layers().size(); ++table) {
    const LayerHash& layer = engine.hasher().spec().layers()[table];
    const std::vector<RowId> rows = {0, 1, static_cast<RowId>(layer.row_count) - 1};
    const std::size_t row_bytes =
        engine.memory()->output_bytes(static_cast<int>(table), OutputFormat::raw);
    std::vector<std::byte> bytes(rows.size() * row_bytes);
    LookupWorkspace workspace;
    ENGRAM_TRY(engine.memory()->lookup_rows(static_cast<int>(table), rows,
                                            {OutputFormat::raw, bytes, 0}, workspace));
    bool equal = true;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto expected = procedural_row(0, layer.layer_id, rows[i]);
      equal = equal && std::memcmp(expected.data(), bytes.data() + i * row_bytes, row_bytes) == 0;
    }
    ENGRAM_TRY(expect(equal, fmt::format("layer {}: stored rows as written", layer.layer_id)));
  }
  return {};
}

Status run_selftest(const ModelOptions& options) {
  ENGRAM_TRY(check_constants());
  ENGRAM_TRY(check_rows());
  if (!options.model.empty()) {
    const auto engine = open_engine(options, Load::gates);
    if (!engine) return engine.error();
    const auto warming = warm_behind(options, *engine);
    if (!warming) return warming.error();
    return check_model(*engine);
  }
  const auto model = DemoModel::make();
  if (!model) return model.error();
  const auto engine = Engine::open(model->directory());
  if (!engine) return engine.error();
  ENGRAM_TRY(check_stored_rows(*engine));
  return check_model(*engine);
}

}  // namespace

void add_selftest(const Command& app) {
  const auto options = std::make_shared<ModelOptions>();
  const Command command = app.add_subcommand(
      "selftest", "Built-in vectors, then prefill against single steps (on MODEL or a demo)");
  options->add_options(command);
  command.option("MODEL").required(false);
  options->add_tier_options(command);
  command.runs([options] { return run_selftest(*options); });
}

}  // namespace engram::cli
