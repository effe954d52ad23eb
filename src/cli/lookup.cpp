// engram lookup: decoded rows of tokens or row ids, to a NumPy file.
#include <fmt/format.h>

#include <array>
#include <memory>

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/names.hpp"
#include "cli/npy.hpp"
#include "cli/token_input.hpp"

namespace engram::cli {
namespace {

struct LookupOptions {
  ModelOptions model;
  TokenInput input;
  std::int64_t layer = 0;
  std::string rows;
  std::string output;
  OutputFormat format = OutputFormat::f32;
};

std::string_view npy_dtype(OutputFormat format) {
  if (format == OutputFormat::f32) return "<f4";
  if (format == OutputFormat::f16) return "<f2";
  return format == OutputFormat::bf16 ? "<u2" : "|u1";
}

std::size_t item_bytes(OutputFormat format) {
  if (format == OutputFormat::f32) return 4;
  return format == OutputFormat::raw ? 1 : 2;
}

Status lookup_rows(const LookupOptions& options, const Engine& engine, int table) {
  const auto rows = parse_numbers(options.rows, "--rows");
  if (!rows) return rows.error();
  const std::size_t row_bytes = engine.memory()->output_bytes(table, options.format);
  std::vector<std::byte> bytes(rows->size() * row_bytes);
  LookupWorkspace workspace;
  ENGRAM_TRY(engine.memory()->lookup_rows(table, *rows, {options.format, bytes, 0}, workspace));
  const std::array shape = {rows->size(), row_bytes / item_bytes(options.format)};
  auto writer = NpyWriter::create(first_rank() ? options.output : "",
                                  std::string(npy_dtype(options.format)), shape);
  if (!writer) return std::move(writer).error();
  ENGRAM_TRY(writer->append(bytes));
  return writer->finish();
}

Status lookup_tokens(const LookupOptions& options, const Engine& engine, int table,
                     const Tokens& tokens) {
  const auto columns = static_cast<std::size_t>(engine.hasher().spec().config().columns());
  const std::size_t row_bytes = engine.memory()->output_bytes(table, options.format);
  const std::array shape = {tokens.ids.size(), columns, row_bytes / item_bytes(options.format)};
  auto writer = NpyWriter::create(first_rank() ? options.output : "",
                                  std::string(npy_dtype(options.format)), shape);
  if (!writer) return std::move(writer).error();
  Session session(engine);
  std::vector<std::byte> bytes;
  const std::size_t chunk = options.input.chunk == 0 ? kTokensAtOnce : options.input.chunk;
  ENGRAM_TRY(for_each_chunk(session, tokens, chunk, [&](std::size_t) -> Status {
    bytes.resize(session.length() * columns * row_bytes);
    ENGRAM_TRY(session.lookup(options.layer, {options.format, bytes, 0}));
    return writer->append(bytes);
  }));
  return writer->finish();
}

Status run_lookup(const LookupOptions& options) {
  const bool has_tokens =
      !options.input.ids.empty() || !options.input.text.empty() || !options.input.ids_file.empty();
  if (has_tokens == !options.rows.empty()) {
    return usage_error("lookup: give tokens (--ids, --text, --ids-file) or --rows, one of them");
  }
  const auto engine = open_engine(options.model, Load::rows);
  if (!engine) return engine.error();
  const auto warming = warm_behind(options.model, *engine);
  if (!warming) return warming.error();
  const auto table = engine->hasher().spec().table_index(options.layer);
  if (!table) return table.error();
  if (!options.rows.empty()) return lookup_rows(options, *engine, *table);
  const auto tokens = read_tokens(options.input, tokenizer_path(options.model, *engine));
  if (!tokens) return tokens.error();
  return lookup_tokens(options, *engine, *table, *tokens);
}

}  // namespace

void add_lookup(const Command& app) {
  const auto options = std::make_shared<LookupOptions>();
  const Command command =
      app.add_subcommand("lookup", "Rows of tokens, or rows by id, to a .npy file");
  options->model.add_options(command);
  options->input.add_options(command, false);
  command.add_option("--layer", options->layer, "Layer id (1 or 14 in V4.1)").required();
  command.add_option("--rows", options->rows, "Table-global row ids instead of tokens: 1,2,3");
  command.add_option("--output", options->output, "NumPy file to write").required();
  command.add_choice("--format", options->format, kOutputFormats,
                     "f32, f16, bf16 (as uint16) or raw (packed bytes)");
  options->model.add_tier_options(command);
  command.runs([options] { return run_lookup(*options); });
}

}  // namespace engram::cli
