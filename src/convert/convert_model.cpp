// Converts the tables of a model: plans every file, writes them under a journal, publishes.
#include <fmt/format.h>

#include <algorithm>

#include "engram/convert.hpp"
#include "engram/token_map.hpp"

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "convert/file_writer.hpp"
#include "convert/manifest_json.hpp"
#include "convert/model_plan.hpp"
#include "convert/staging.hpp"
#include "convert/table_stream.hpp"

namespace engram {
namespace {

constexpr std::string_view kJournalName = "engram-convert.journal";

// The token map of the source: its own, or its tokenizer's; empty where it has neither.
Result<std::vector<CompressedId>> source_token_map(const Checkpoint& source, std::string& sha256) {
  if (source.token_map().empty() && source.tokenizer_path().empty()) {
    return std::vector<CompressedId>();
  }
  const auto map = source.token_map().empty()
                       ? TokenMap::from_tokenizer_file(source.tokenizer_path())
                       : TokenMap::from_ids(source.token_map(), source.directory());
  if (!map) return map.error();
  const ModelConfig& config = source.config();
  if (map->compressed_size() != config.compressed_vocab_size ||
      (!config.token_map_sha256.empty() && map->sha256() != config.token_map_sha256)) {
    return make_error(Code::corrupt,
                      "{}: its tokenizer is another model's: expected {} compressed ids, found {}",
                      source.directory(), config.compressed_vocab_size, map->compressed_size());
  }
  sha256 = map->sha256();
  return std::vector<CompressedId>(map->ids().begin(), map->ids().end());
}

Result<PlanInput> prepare(const Checkpoint& source, const ConvertOptions& options) {
  if (source.tables().empty()) {
    return make_error(Code::invalid_argument, "{}: no tables to convert", source.directory());
  }
  const auto target = parse_target(options.to, source.tables()[0].layout.format);
  if (!target) return target.error();
  std::string sha256;
  auto map = source_token_map(source, sha256);
  if (!map) return std::move(map).error();
  const ModelConfig& config = source.config();
  // Without a map the pad's compressed id is unknown; constants of rows do not depend on it.
  const auto pad_index = static_cast<std::size_t>(config.pad_token_id);
  const CompressedId pad = pad_index < map->size() ? (*map)[pad_index] : 0;
  auto spec = HashSpec::compute(config.hash_config(pad));
  if (!spec) return std::move(spec).error();
  for (const std::int64_t layer : options.layers) {
    const auto index = spec->table_index(layer);
    if (!index) return index.error();
  }
  std::string names;
  for (const TableSource& table : source.tables()) {
    const auto name = table_fingerprint(table);
    if (!name) return name.error();
    names += *name;
  }
  auto name = sha256_hex(std::as_bytes(std::span(names)));
  if (!name) return std::move(name).error();
  return PlanInput{source,          options, *target,         *std::move(spec),
                   *std::move(map), sha256,  *std::move(name)};
}

Result<ModelPlan> plan_model(const PlanInput& input) {
  switch (input.target.container) {
    case Container::gguf_rows:
    case Container::gguf_blocks:
      return plan_gguf_model(input);
    case Container::paged:
      return plan_paged_model(input);
    default:
      return plan_safetensors_model(input);
  }
}

// What a journal is bound to: the source as it is now, the options, and every planned byte count.
Result<std::string> plan_digest(const PlanInput& input, const ModelPlan& plan) {
  const Mxfp4Rule& rule = input.options.mxfp4;
  std::string text = fmt::format("{} {} {} {} {} {}\n", input.source_name, input.options.to,
                                 input.options.rows_per_chunk, static_cast<int>(rule.exponent),
                                 static_cast<int>(rule.ties), rule.negative_zero);
  for (const TableSource& table : input.source.tables()) {
    text += fmt::format("{} {} {}\n", table.weight.path, table.weight.file_bytes,
                        os::modified_ns(table.weight.path));
  }
  for (const OutputFile& file : plan.files) {
    text += fmt::format("{} {}\n{}", file.name, file.file_bytes, file.header);
  }
  return sha256_hex(std::as_bytes(std::span(text)));
}

Status write_model(const PlanInput& input, const ModelPlan& plan, StagedDirectory& staged) {
  const auto digest = plan_digest(input, plan);
  if (!digest) return digest.error();
  const std::string journal_path = staged.path(std::string(kJournalName));
  auto journal = staged.resumes() ? Journal::resume(journal_path, *digest)
                                  : Journal::create(journal_path, *digest);
  if (!journal) return std::move(journal).error();
  ENGRAM_TRY(staged.check_room(plan.total_bytes()));
  Manifest manifest;
  manifest.source = input.source_name;
  std::uint64_t done = 0;
  const auto wrote = [&](std::uint64_t bytes) {
    done += bytes;
    if (input.options.progress) input.options.progress(done, plan.total_bytes());
  };
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    const OutputFile& file = plan.files[i];
    auto sha256 =
        write_file({file, i, staged.path(file.name), input.options.threads, wrote}, *journal);
    if (!sha256) return std::move(sha256).error();
    manifest.files.push_back({file.name, file.file_bytes, *std::move(sha256)});
  }
  for (const auto& [name, text] : plan.texts) {
    os::remove_file(staged.path(name));  // of an interrupted run
    ENGRAM_TRY(os::write_text_file(staged.path(name), text));
    auto sha256 = sha256_hex(std::as_bytes(std::span(text)));
    if (!sha256) return std::move(sha256).error();
    manifest.files.push_back({name, text.size(), *std::move(sha256)});
    if (name == "config.json") manifest.config = text;
  }
  os::remove_file(staged.path(std::string(kManifestName)));
  ENGRAM_TRY(os::write_text_file(staged.path(std::string(kManifestName)), manifest_json(manifest)));
  os::remove_file(journal_path);
  return staged.publish();
}

}  // namespace

Status convert(const Checkpoint& source, const std::string& destination,
               const ConvertOptions& options) {
  const auto input = prepare(source, options);
  if (!input) return input.error();
  const auto plan = plan_model(*input);
  if (!plan) return plan.error();
  auto staged = StagedDirectory::begin(destination, options.resume);
  if (!staged) return std::move(staged).error();
  return write_model(*input, *plan, *staged);
}

}  // namespace engram
