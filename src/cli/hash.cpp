// engram hash: token ids or text to compressed ids, keys and row ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/token_input.hpp"

namespace engram::cli {
namespace {

struct HashOptions {
  ModelOptions model;
  TokenInput input;
  bool json = false;
};

// Everything the command prints, gathered chunk by chunk.
struct Hashes {
  std::vector<CompressedId> compressed;
  std::vector<std::vector<Key>> keys;    // per layer [length, orders]
  std::vector<std::vector<RowId>> rows;  // per layer [length, columns]
};

// Where no tensor is there at all, config.json and the tokenizer are enough to hash; where there
// are any, they are opened too, so that addresses never come from a geometry the tables deny.
Load what_to_load(const std::string& directory) {
  std::error_code code;
  for (std::filesystem::directory_iterator it(directory, code), end; !code && it != end;
       it.increment(code)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) {
      return Load::rows;
    }
  }
  return Load::addresses;
}

Result<Hashes> gather(const Engine& engine, const Tokens& tokens, std::size_t chunk) {
  const HashSpec& spec = engine.hasher().spec();
  const auto columns = static_cast<std::size_t>(spec.config().columns());
  Hashes hashes;
  hashes.keys.resize(spec.layers().size());
  hashes.rows.resize(spec.layers().size());
  Session session(engine);
  std::vector<RowId> rows;
  ENGRAM_TRY(for_each_chunk(session, tokens, chunk, [&](std::size_t) -> Status {
    const auto compressed = session.compressed();
    hashes.compressed.insert(hashes.compressed.end(), compressed.begin(), compressed.end());
    rows.resize(session.length() * columns);
    for (std::size_t table = 0; table < spec.layers().size(); ++table) {
      const std::int64_t layer_id = spec.layers()[table].layer_id;
      const auto keys = session.keys(layer_id);
      if (!keys) return keys.error();
      hashes.keys[table].insert(hashes.keys[table].end(), keys->begin(), keys->end());
      ENGRAM_TRY(session.rows(layer_id, rows));
      hashes.rows[table].insert(hashes.rows[table].end(), rows.begin(), rows.end());
    }
    return {};
  }));
  return hashes;
}

// [[a,b],[c,d]], each number in `quote`.
template <typename T>
std::string nested(const std::vector<T>& flat, std::size_t width, std::string_view quote) {
  std::string text = "[";
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const bool first = i % width == 0;
    text += fmt::format("{}{}{}{}{}", first ? (i == 0 ? "[" : ",[") : ",", quote, flat[i], quote,
                        (i + 1) % width == 0 ? "]" : "");
  }
  return text + "]";
}

void print_json(const HashSpec& spec, const Tokens& tokens, const Hashes& hashes) {
  std::string layers;
  for (std::size_t table = 0; table < spec.layers().size(); ++table) {
    layers += fmt::format(
        R"({}{{"layer":{},"keys":{},"rows":{}}})", table == 0 ? "" : ",",
        spec.layers()[table].layer_id,
        nested(hashes.keys[table], static_cast<std::size_t>(spec.config().orders()), "\""),
        nested(hashes.rows[table], static_cast<std::size_t>(spec.config().columns()), ""));
  }
  fmt::print("{{\"tokens\":[{}],\"compressed\":[{}],\"layers\":[{}]}}\n",
             fmt::join(tokens.ids, ","), fmt::join(hashes.compressed, ","), layers);
}

void print_table(const HashSpec& spec, const Tokens& tokens, const Hashes& hashes) {
  const auto orders = static_cast<std::size_t>(spec.config().orders());
  const auto heads = static_cast<std::size_t>(spec.config().heads);
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    fmt::print("position {}: token {} -> compressed {}\n", i, tokens.ids[i],
               hashes.compressed[i] == kDead ? "dead" : std::to_string(hashes.compressed[i]));
    for (std::size_t table = 0; table < spec.layers().size(); ++table) {
      for (std::size_t order = 0; order < orders; ++order) {
        const std::size_t key = i * orders + order;
        const auto* rows = hashes.rows[table].data() + key * heads;
        fmt::print("  layer {} {}-gram  key {}  rows {}\n", spec.layers()[table].layer_id,
                   order + 2, hashes.keys[table][key], fmt::join(rows, rows + heads, " "));
      }
    }
  }
}

Status run_hash(const HashOptions& options) {
  const auto engine = open_engine(options.model, what_to_load(options.model.model));
  if (!engine) return engine.error();
  const auto tokens = read_tokens(options.input, tokenizer_path(options.model, *engine));
  if (!tokens) return tokens.error();
  const auto hashes = gather(*engine, *tokens, options.input.chunk);
  if (!hashes) return hashes.error();
  const auto print = options.json ? print_json : print_table;
  print(engine->hasher().spec(), *tokens, *hashes);
  return {};
}

}  // namespace

void add_hash(const Command& app) {
  const auto options = std::make_shared<HashOptions>();
  const Command command =
      app.add_subcommand("hash", "Compressed ids, n-gram keys and row ids of tokens");
  options->model.add_options(command);
  options->input.add_options(command, true);
  command.add_flag("--json", options->json, "One JSON object; keys as decimal strings");
  command.runs([options] { return run_hash(*options); });
}

}  // namespace engram::cli
