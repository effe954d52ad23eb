// engram apply: a residual stream before a layer to the gated one after it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/npy.hpp"
#include "cli/token_input.hpp"

namespace engram::cli {
namespace {

struct ApplyOptions {
  ModelOptions model;
  TokenInput input;
  std::int64_t layer = 0;
  std::string hidden;
  std::string output;
  bool no_round = false;
};

Status check_hidden(const ApplyOptions& options, const NpyArray& hidden, const GateShape& shape,
                    std::size_t tokens) {
  const std::vector<std::size_t> expected = {tokens, shape.copies, shape.hidden_dim};
  if (hidden.dtype == "|u1" || hidden.shape != expected) {
    return usage_error(fmt::format("{}: expected float32 or uint16 [{}], found {} [{}]",
                                   options.hidden, fmt::join(expected, ", "), hidden.dtype,
                                   fmt::join(hidden.shape, ", ")));
  }
  if (options.no_round && hidden.dtype != "<f4") {
    return usage_error(fmt::format("{}: --no-round needs float32, found bfloat16", options.hidden));
  }
  return {};
}

// The elements of the current chunk, as T, changed in place.
template <typename T>
std::span<T> chunk_of(NpyArray& hidden, std::size_t first, std::size_t length) {
  const std::size_t stream = hidden.shape[1] * hidden.shape[2];
  return {reinterpret_cast<T*>(hidden.bytes.data()) + first * stream, length * stream};
}

Status run_apply(const ApplyOptions& options) {
  const auto engine = open_engine(options.model, Load::gates);
  if (!engine) return engine.error();
  const auto warming = warm_behind(options.model, *engine);
  if (!warming) return warming.error();
  const auto table = engine->hasher().spec().table_index(options.layer);
  if (!table) return table.error();
  const auto tokens = read_tokens(options.input, tokenizer_path(options.model, *engine));
  if (!tokens) return tokens.error();
  auto hidden = read_npy(options.hidden);
  if (!hidden) return std::move(hidden).error();
  ENGRAM_TRY(check_hidden(options, *hidden, engine->gate(*table)->shape(), tokens->ids.size()));
  const Rounding rounding = options.no_round ? Rounding::none : Rounding::reference;
  Session session(*engine);
  const std::size_t chunk = options.input.chunk == 0 ? kTokensAtOnce : options.input.chunk;
  ENGRAM_TRY(for_each_chunk(session, *tokens, chunk, [&](std::size_t first) -> Status {
    const std::size_t length = session.length();
    if (hidden->dtype == "<u2") {
      return session.apply(options.layer, chunk_of<std::uint16_t>(*hidden, first, length));
    }
    return session.apply(options.layer, chunk_of<float>(*hidden, first, length), rounding);
  }));
  auto writer = NpyWriter::create(first_rank() ? options.output : "", hidden->dtype, hidden->shape);
  if (!writer) return std::move(writer).error();
  ENGRAM_TRY(writer->append(hidden->bytes));
  return writer->finish();
}

}  // namespace

void add_apply(const Command& app) {
  const auto options = std::make_shared<ApplyOptions>();
  const Command command =
      app.add_subcommand("apply", "Adds a layer's gated memory to a residual stream");
  options->model.add_options(command);
  options->input.add_options(command, true);
  command.add_option("--layer", options->layer, "Layer id (1 or 14 in V4.1)").required();
  command
      .add_option("--hidden", options->hidden,
                  ".npy [tokens, copies, dim], float32 or uint16 (bfloat16 bits)")
      .required();
  command.add_option("--output", options->output, ".npy to write, of the same type").required();
  command.add_flag("--no-round", options->no_round,
                   "Round nowhere to bfloat16 (float32 input only)");
  options->model.add_tier_options(command);
  command.runs([options] { return run_apply(*options); });
}

}  // namespace engram::cli
