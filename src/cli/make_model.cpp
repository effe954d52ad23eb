// engram make-model: a procedural model in the official layout.
#include <fmt/format.h>

#include <memory>

#include "engram/convert.hpp"

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "cli/token_input.hpp"

namespace engram::cli {
namespace {

constexpr const char* kFooter =
    "Row r of layer L: outputs of splitmix64 whose state starts at mix(S + L * 2^32 + r), mix "
    "being\n"
    "its finaliser (z ^= z>>30; z *= 0xbf58476d1ce4e5b9; z ^= z>>27; z *= 0x94d049bb133111eb;\n"
    "z ^= z>>31), each step adding 0x9e3779b97f4a7c15, all mod 2^64. The first 32, little endian, "
    "are\n"
    "the 256 codes, a code c with (c & 0x7f) == 0x7f becoming c ^ 1; byte b of the 33rd gives "
    "scale\n"
    "byte 0x76 + b mod 3.";

struct MakeModelOptions {
  std::string directory;
  std::string layers = "1,14";
  std::string ids_file;
  ModelRecipe recipe;
};

Status run_make_model(MakeModelOptions& options) {
  auto layers = parse_numbers(options.layers, "--layers");
  if (!layers) return std::move(layers).error();
  options.recipe.layer_ids = *std::move(layers);
  if (!options.ids_file.empty()) {
    auto ids = read_ids_file(options.ids_file);
    if (!ids) return std::move(ids).error();
    options.recipe.ids = *std::move(ids);
  }
  ENGRAM_TRY(make_model(options.directory, options.recipe, progress_bar("writing", Counts::other)));
  fmt::print("{}\n", options.directory);
  return {};
}

}  // namespace

void add_make_model(const Command& app) {
  const auto options = std::make_shared<MakeModelOptions>();
  ModelRecipe& recipe = options->recipe;
  const Command command =
      app.add_subcommand("make-model", "Writes a procedural model, for tests and demos");
  command.add_option("DIR", options->directory, "Directory to make; must not exist").required();
  command.add_option("--tokenizer", recipe.tokenizer_path, "tokenizer.json to copy").required();
  command.add_option("--engram-vocab", recipe.engram_vocab_size, "Where the primes begin")
      .show_default();
  command.add_option("--layers", options->layers, "Layer ids").show_default();
  command.add_option("--hidden", recipe.hidden_dim, "Width of one residual copy").show_default();
  command.add_option("--copies", recipe.copies, "Residual copies").show_default();
  command.add_option("--seed", recipe.seed, "Seed of every byte").show_default();
  command.add_flag("--sparse", recipe.sparse, "Tables as holes");
  command.add_option("--rows-for-ids-file", options->ids_file,
                     "With --sparse: real rows for the n-grams of these token ids");
  command.add_flag("--bf16", recipe.bf16, "Tables and wkv in BF16 instead of FP8");
  command.footer(kFooter);
  command.runs([options] { return run_make_model(*options); });
}

}  // namespace engram::cli
