// engram token-map: the compressed map of a tokenizer.
#include "engram/token_map.hpp"

#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"

namespace engram::cli {
namespace {

struct TokenMapOptions {
  std::string tokenizer;
  std::string output;
  bool json = false;
};

Status run_token_map(const TokenMapOptions& options) {
  const auto map = TokenMap::from_tokenizer_file(options.tokenizer);
  if (!map) return map.error();
  if (!options.output.empty()) ENGRAM_TRY(map->save(options.output));
  if (options.json) {
    fmt::print("{{\"tokens\":{},\"compressed_size\":{},\"sha256\":\"{}\"}}\n", map->ids().size(),
               map->compressed_size(), map->sha256());
    return {};
  }
  fmt::print("tokens           {}\ncompressed size  {}\nsha256 (int32)   {}{}\n", map->ids().size(),
             map->compressed_size(), map->sha256(),
             map->sha256() == kV41TokenMapSha256 ? "  (DeepSeek-V4.1-Flash)" : "");
  return {};
}

}  // namespace

void add_token_map(const Command& app) {
  const auto options = std::make_shared<TokenMapOptions>();
  const Command command = app.add_subcommand("token-map", "The compressed map of a tokenizer.json");
  command.add_option("TOKENIZER", options->tokenizer, "tokenizer.json").required();
  command.add_option("--output", options->output, "Write the map: int32 little endian");
  command.add_flag("--json", options->json, "One JSON object");
  command.runs([options] { return run_token_map(*options); });
}

}  // namespace engram::cli
