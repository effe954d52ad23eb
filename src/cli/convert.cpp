// engram convert: tables of a model in another format.
#include "engram/convert.hpp"

#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

const std::map<std::string, Mxfp4Exponent> kExponents = {{"search", Mxfp4Exponent::search},
                                                         {"floor", Mxfp4Exponent::floor},
                                                         {"ceil", Mxfp4Exponent::ceil}};
const std::map<std::string, Ties> kTies = {{"even", Ties::even},
                                           {"toward-zero", Ties::toward_zero}};

struct Options {
  std::string source;
  std::string destination;
  std::string like;
  CheckpointOptions checkpoint;
  ConvertOptions convert;
};

Status run_convert(Options& options) {
  if (!options.like.empty()) options.convert.mxfp4 = kModelOptMxfp4;
  const auto source = Checkpoint::open(options.source, options.checkpoint);
  if (!source) return source.error();
  options.convert.progress = progress_bar("converting");
  ENGRAM_TRY(convert(*source, options.destination, options.convert));
  fmt::print("{}\n", options.destination);
  return {};
}

}  // namespace

void add_convert(const Command& app) {
  const auto options = std::make_shared<Options>();
  ConvertOptions& convert = options->convert;
  const Command command = app.add_subcommand("convert", "Tables of a model in another format");
  command.add_option("SRC", options->source, "Model directory or GGUF file").required();
  command.add_option("DST", options->destination, "Directory to make; must not exist").required();
  command
      .add_option("--to", convert.to,
                  "fp8, row264, mxfp8, mxfp4, bf16, int8, int4-e4m3, lloyd4, q8_0, mxfp4-gguf, "
                  "f16, f32, paged or paged:CODEC")
      .required();
  command.add_option("--layers", convert.layers, "Layer ids; all where not given");
  command
      .add_option("--rows-per-chunk", convert.rows_per_chunk,
                  "Rows between two points to resume from")
      .range(std::int64_t{1}, std::int64_t{1} << 32)
      .show_default();
  add_threads_option(command, convert.threads);
  command.add_choice("--exponent", convert.mxfp4.exponent, kExponents,
                     "MXFP4 scales: search, floor or ceil");
  command.add_choice("--ties", convert.mxfp4.ties, kTies, "MXFP4 ties: even or toward-zero");
  command.add_option("--like", options->like, "Byte parity with another tool's MXFP4: modelopt")
      .one_of({"modelopt"});
  command.add_flag("--tables-only", convert.tables_only, "Leave gate weights out");
  command.add_flag("--resume", convert.resume, "Go on with what an interrupted run left");
  add_checkpoint_options(command, options->checkpoint);
  command.runs([options] { return run_convert(*options); });
}

}  // namespace engram::cli
