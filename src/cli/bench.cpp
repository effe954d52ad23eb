// engram bench: what lookups cost here, beside what the machine can do.
#include <fmt/format.h>

#include <memory>

#include "cli/bench_curves.hpp"
#include "cli/bench_kinds.hpp"
#include "cli/command.hpp"
#include "cli/corpus.hpp"

namespace engram::cli {
namespace {

struct BenchCommand {
  BenchOptions options;
  CorpusInput corpus;
  std::string workload;  // only this one; empty: all
  bool json = false;
  std::string svg;  // curves
};

struct Kind {
  BenchKind run;
  Load load;
  const char* what;
};

const std::map<std::string, Kind> kKinds = {
    {"hash", {bench_hash, Load::addresses, "Token ids to row ids of every layer"}},
    {"decode", {bench_decode, Load::rows, "Rows that are at hand to bfloat16"}},
    {"gather", {bench_gather, Load::rows, "Rows of a prefill chunk to bfloat16"}},
    {"gate", {bench_gate, Load::gates, "One layer's projection and gate"}},
    {"store", {bench_store, Load::rows, "Rows as they are stored"}},
    {"prefill", {bench_prefill, Load::rows, "Both layers' rows of a chunk, prefetched"}},
    {"decode-step", {bench_decode_step, Load::rows, "Both layers' rows of one token"}},
};

Result<std::vector<Workload>> workloads(const BenchCommand& command, const Engine& engine) {
  constexpr std::uint64_t kSeed = 20260101;
  std::vector<Workload> result;
  if (!command.corpus.paths.empty()) {
    const auto documents =
        read_corpus(command.corpus, tokenizer_path(command.options.model, engine));
    if (!documents) return documents.error();
    if (documents->empty()) return usage_error("--text-files: there is no text in them");
    result.push_back(Workload::text(*documents));
  }
  const auto vocabulary = static_cast<std::int64_t>(engine.token_map().ids().size());
  result.push_back(Workload::uniform(vocabulary, kSeed));
  result.push_back(Workload::one_token(static_cast<TokenId>(vocabulary / 2)));
  return result;
}

Status run_bench(const BenchCommand& command, const Kind& kind) {
  auto bench = Bench::open(command.options, kind.load);
  if (!bench) return std::move(bench).error();
  auto loads = workloads(command, bench->engine());
  if (!loads) return std::move(loads).error();
  for (Workload& workload : *loads) {
    if (!command.workload.empty() && workload.name() != command.workload) continue;
    const auto result = kind.run(*bench, workload);
    if (!result) return result.error();
    if (first_rank()) fmt::print("{}\n", report_line(*result, command.json));
  }
  return {};
}

Status run_curves(const BenchCommand& command) {
  const auto engine = open_engine(command.options.model, Load::addresses);
  if (!engine) return engine.error();
  const auto documents =
      read_corpus(command.corpus, tokenizer_path(command.options.model, *engine));
  if (!documents) return documents.error();
  return hit_rate_curves(*engine, *documents, command.json, command.svg);
}

void add_kind(const Command& bench, const std::string& name, const Kind& kind) {
  const auto command = std::make_shared<BenchCommand>();
  const Command sub = bench.add_subcommand(name, kind.what);
  command->options.model.add_options(sub);
  command->corpus.add_options(sub, false);
  if (kind.load != Load::addresses) command->options.model.add_tier_options(sub);
  sub.add_option("--workload", command->workload,
                 "Only this one: text (of --text-files), uniform (random ids: the worst case) or "
                 "one-token (the best)")
      .one_of({"text", "uniform", "one-token"});
  sub.add_option("--tokens", command->options.tokens, "Tokens of one round");
  sub.add_option("--rounds", command->options.rounds, "Rounds").range(1, 100'000).show_default();
  if (kind.load != Load::addresses) {
    sub.add_flag("--cold", command->options.cold,
                 "Before each round, drop the files from the page cache and open again");
  }
  sub.add_flag("--json", command->json, "One JSON object per line");
  sub.runs([command, &kind] { return run_bench(*command, kind); });
}

}  // namespace

void add_bench(const Command& app) {
  const Command bench =
      app.add_subcommand("bench", "What lookups cost here, beside what the machine can do");
  bench.require_subcommand();
  for (const auto& [name, kind] : kKinds) add_kind(bench, name, kind);

  const auto command = std::make_shared<BenchCommand>();
  const Command curves =
      bench.add_subcommand("curves", "Hit rates of caches of every size on texts");
  command->options.model.add_options(curves);
  command->corpus.add_options(curves, true);
  curves.add_flag("--json", command->json, "One JSON object per line");
  curves.add_option("--svg", command->svg, "Draw them to this file");
  curves.runs([command] { return run_curves(*command); });
}

}  // namespace engram::cli
