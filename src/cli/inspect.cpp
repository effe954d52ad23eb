// engram inspect: what a model directory holds, where, and whether it fits together.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>

#include "engram/convert.hpp"
#include "engram/engine.hpp"

#include "cli/command.hpp"
#include "cli/engine_options.hpp"

namespace engram::cli {
namespace {

struct InspectOptions {
  std::string model;
  std::string tokenizer;
  std::string token_map_sha256;
  CheckpointOptions checkpoint;
  std::string report;
  bool json = false;
};

struct Inspection {
  Checkpoint checkpoint;
  std::optional<TokenMap> map;
  std::string tokenizer_path;
  Status map_status;  // the map against the config
  Account account;
};

Result<Inspection> inspect(const InspectOptions& options) {
  auto checkpoint = Checkpoint::open(options.model, options.checkpoint);
  if (!checkpoint) return std::move(checkpoint).error();
  const auto counted = account(*checkpoint);
  if (!counted) return counted.error();
  Inspection result{*std::move(checkpoint), {}, options.tokenizer, {}, *counted};
  if (result.tokenizer_path.empty()) result.tokenizer_path = result.checkpoint.tokenizer_path();
  const std::vector<CompressedId>& own = result.checkpoint.token_map();
  if (result.tokenizer_path.empty() && own.empty()) return result;
  const std::string where = own.empty() ? result.tokenizer_path : options.model;
  auto map = own.empty() ? TokenMap::from_tokenizer_file(where) : TokenMap::from_ids(own, where);
  if (!map) {
    result.map_status = std::move(map).error();
    return result;
  }
  result.map = *std::move(map);
  const ModelConfig& config = result.checkpoint.config();
  result.map_status = check_token_map(
      *result.map, config, expected_token_map_sha256(options.token_map_sha256, config), where);
  return result;
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string tensor_json(const TensorExtent& tensor) {
  return fmt::format(R"({{"name":{},"file":{},"dtype":{},"shape":[{}],"offset":{},"bytes":{}}})",
                     json_string(tensor.name), json_string(tensor.path), json_string(tensor.dtype),
                     fmt::join(tensor.shape, ","), tensor.offset_bytes, tensor.size_bytes);
}

std::string config_json(const ModelConfig& config) {
  return fmt::format(
      R"({{"layers":[{}],"max_ngram":{},"heads":{},"head_dim":{},"engram_vocab_size":{},)"
      R"("compressed_vocab_size":{},"pad_token_id":{},"vocab_size":{},"hidden_size":{},)"
      R"("copies":{},"norm_eps":{}}})",
      fmt::join(config.layer_ids, ","), config.max_ngram_size, config.heads, config.head_dim,
      config.engram_vocab_size, config.compressed_vocab_size, config.pad_token_id,
      config.vocab_size, config.hidden_dim, config.copies, config.norm_eps);
}

std::string part_json(const Account::Part& part) {
  return fmt::format(R"({{"bytes":{},"weights":{},"bits_per_weight":{:.9g}}})", part.bytes,
                     part.weights, part.bits_per_weight());
}

Account::Part whole(const Account& account) {
  return {account.tables.bytes + account.rest.bytes, account.tables.weights + account.rest.weights};
}

// The accounting that MLX exports carry: the budget of a quantiser leaves the tables out.
std::string report_json(const Account& account) {
  return fmt::format(R"({{"budget_scope":"remaining_weights_excluding_engram","checkpoint":{},)"
                     R"("engram_tables":{},"remaining":{}}})"
                     "\n",
                     part_json(whole(account)), part_json(account.tables), part_json(account.rest));
}

Status write_report(const std::string& path, const Account& account) {
  std::ofstream file(path, std::ios::trunc);
  file << report_json(account) << std::flush;
  if (file) return {};
  return Error{Code::io, errno, fmt::format("{}: cannot write the report", path)};
}

std::string missing_json(const Inspection& found) {
  std::vector<std::string> names;
  for (const std::string& name : found.checkpoint.missing()) names.push_back(json_string(name));
  if (!found.map && found.map_status) names.push_back(json_string("tokenizer.json"));
  return fmt::format("[{}]", fmt::join(names, ","));
}

void print_json(const Inspection& found) {
  std::string tables;
  for (const TableSource& table : found.checkpoint.tables()) {
    tables +=
        fmt::format(R"({}{{"layer":{},"rows":{},"format":"{}","weight":{},"scale":{},"bias":{}}})",
                    tables.empty() ? "" : ",", table.layer_id, table.row_count,
                    row_format_name(table.layout.format), tensor_json(table.weight),
                    table.scale ? tensor_json(*table.scale) : "null",
                    table.bias ? tensor_json(*table.bias) : "null");
  }
  std::string gates;
  for (const GateSource& gate : found.checkpoint.gates()) {
    gates += fmt::format(R"({}{{"layer":{},"wkv":{},"wkv_scale":{},"q_weight":{},"k_weight":{}}})",
                         gates.empty() ? "" : ",", gate.layer_id, tensor_json(gate.wkv),
                         gate.wkv_scale ? tensor_json(*gate.wkv_scale) : "null",
                         tensor_json(gate.q_weight), tensor_json(gate.k_weight));
  }
  const std::string map =
      found.map ? fmt::format(R"({{"tokens":{},"compressed_size":{},"sha256":"{}","matches":{}}})",
                              found.map->ids().size(), found.map->compressed_size(),
                              found.map->sha256(), found.map_status.has_value())
                : "null";
  fmt::print(R"({{"config":{},"tables":[{}],"gates":[{}],"token_map":{},"missing":{},)"
             R"("account":{{"tables":{},"rest":{}}}}})"
             "\n",
             config_json(found.checkpoint.config()), tables, gates, map, missing_json(found),
             part_json(found.account.tables), part_json(found.account.rest));
}

void print_tensor(std::string_view label, const TensorExtent& tensor) {
  fmt::print("  {:<9} {} {} [{}]\n            {} @ {} + {} bytes\n", label, tensor.name,
             tensor.dtype, fmt::join(tensor.shape, ", "), tensor.path, tensor.offset_bytes,
             tensor.size_bytes);
}

void print_account(const Account& account) {
  const auto line = [](std::string_view label, const Account::Part& part) {
    fmt::print("{:<11} {} bytes ({:.2f} GiB), {} weights, {:.4g} bits per weight\n", label,
               part.bytes, static_cast<double>(part.bytes) / (1 << 30), part.weights,
               part.bits_per_weight());
  };
  line("in all", whole(account));
  line("tables", account.tables);
  line("the rest", account.rest);
}

void print_human(const Inspection& found) {
  const ModelConfig& config = found.checkpoint.config();
  fmt::print("{}\n", found.checkpoint.directory());
  fmt::print("geometry    orders 2..{}, {} heads each, rows of {}; primes from {}\n",
             config.max_ngram_size, config.heads, config.head_dim, config.engram_vocab_size);
  fmt::print("residual    {} copies x {}, norm eps {}\n", config.copies, config.hidden_dim,
             config.norm_eps);
  if (found.map) {
    fmt::print("token map   {} tokens -> {}, sha256 {}\n", found.map->ids().size(),
               found.map->compressed_size(), found.map->sha256());
  }
  for (const TableSource& table : found.checkpoint.tables()) {
    const std::uint64_t bytes = table.row_count * table.layout.row_bytes();
    fmt::print("table       layer {}: {} rows, {}, {} bytes ({:.2f} GiB), {:.4g} bits per weight\n",
               table.layer_id, table.row_count, row_format_name(table.layout.format), bytes,
               static_cast<double>(bytes) / (1 << 30),
               8.0 * static_cast<double>(table.layout.row_bytes()) /
                   static_cast<double>(table.layout.head_dim));
    print_tensor("weight", table.weight);
    if (table.scale) print_tensor("scale", *table.scale);
    if (table.bias) print_tensor("bias", *table.bias);
  }
  for (const GateSource& gate : found.checkpoint.gates()) {
    fmt::print("gate        layer {}\n", gate.layer_id);
    print_tensor("wkv", gate.wkv);
    if (gate.wkv_scale) print_tensor("wkv scale", *gate.wkv_scale);
    print_tensor("q_weight", gate.q_weight);
    print_tensor("k_weight", gate.k_weight);
  }
  for (const std::string& name : found.checkpoint.missing()) fmt::print("missing     {}\n", name);
  if (!found.map && found.map_status) fmt::print("missing     tokenizer.json\n");
  print_account(found.account);
}

Status run_inspect(const InspectOptions& options) {
  const auto found = inspect(options);
  if (!found) return found.error();
  if (!options.report.empty()) ENGRAM_TRY(write_report(options.report, found->account));
  if (options.json) {
    print_json(*found);
  } else {
    print_human(*found);
  }
  return found->map_status;
}

}  // namespace

void add_inspect(const Command& app) {
  const auto options = std::make_shared<InspectOptions>();
  const Command command =
      app.add_subcommand("inspect", "What a model directory holds, and whether it fits");
  command.add_option("MODEL", options->model, "Model directory").required();
  command.add_option("--tokenizer", options->tokenizer,
                     "tokenizer.json to use instead of the model's own");
  command.add_option("--token-map-sha256", options->token_map_sha256,
                     "Digest that the token map must have");
  add_checkpoint_options(command, options->checkpoint);
  command.add_option("--report", options->report,
                     "File for the accounting of bits per weight, as JSON");
  command.add_flag("--json", options->json, "One JSON object");
  command.runs([options] { return run_inspect(*options); });
}

}  // namespace engram::cli
