// What `engram bench` measures.
#include "cli/bench_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/bench_bounds.hpp"

namespace engram::cli {
namespace {

constexpr std::size_t kPrefillTokens = 2048;
constexpr std::size_t kArenaBytes = std::size_t{256} << 20;
constexpr double kMicro = 1e6;
constexpr double kNano = 1e9;
// Tokens between what is looked up and what its bound looks at.
constexpr std::size_t kElsewhere = 100'003;

std::span<const LayerHash> layers_of(const Engine& engine) {
  return engine.hasher().spec().layers();
}

// Output rows of every table for `tokens` tokens.
class Rows {
 public:
  Rows(const Engine& engine, std::size_t tokens, OutputFormat format) : format_(format) {
    const auto columns = static_cast<std::size_t>(engine.hasher().spec().config().columns());
    for (int table = 0; table < engine.memory()->table_count(); ++table) {
      bytes_.emplace_back(tokens * columns * engine.memory()->output_bytes(table, format));
    }
  }
  RowOutput output(std::size_t table) { return {format_, bytes_[table], 0}; }
  const std::vector<std::byte>& bytes(std::size_t table) const { return bytes_[table]; }

 private:
  OutputFormat format_;
  std::vector<std::vector<std::byte>> bytes_;
};

// Every layer's rows of the session's chunk.
Status lookup_all(Session& session, const Engine& engine, Rows& rows) {
  for (std::size_t table = 0; table < layers_of(engine).size(); ++table) {
    ENGRAM_TRY(session.lookup(layers_of(engine)[table].layer_id, rows.output(table)));
  }
  return {};
}

std::uint64_t reads_of(const Engine& engine) {
  std::uint64_t reads = 0;
  for (int table = 0; table < engine.memory()->table_count(); ++table) {
    reads += engine.memory()->stats(table).reads;
  }
  return reads;
}

Result<std::vector<RowId>> rows_of(const Session& session, const Engine& engine,
                                   std::size_t table) {
  std::vector<RowId> rows(session.length() *
                          static_cast<std::size_t>(engine.hasher().spec().config().columns()));
  ENGRAM_TRY(session.rows(layers_of(engine)[table].layer_id, rows));
  return rows;
}

using Work = Status (*)(Session&, const Engine&, Rows&);

// Rings and scratch memory are made by the first lookup; `tokens` decides how much of the latter.
Status warm_up(Session& session, const Engine& engine, Rows& rows, std::size_t tokens,
               Workload& workload, Work work) {
  ENGRAM_TRY(session.advance(workload.next(tokens)));
  return work(session, engine, rows);
}

// Rounds of `work`, which looks up a chunk of `tokens` in every layer, against the reads it needs.
Result<BenchResult> bench_rows(Bench& bench, Workload& workload, std::string name,
                               std::size_t tokens, OutputFormat format, Work work) {
  BenchResult result = bench.result(std::move(name), workload);
  result.unit = "us/token";
  std::optional<Session> session;
  std::optional<Rows> rows;
  Workload elsewhere = workload;
  (void)elsewhere.next(kElsewhere);
  for (int round = 0; round < bench.options().rounds; ++round) {
    if (bench.options().cold) {
      session.reset();
      ENGRAM_TRY(bench.reopen_cold());
    }
    const Engine& engine = bench.engine();
    if (!session) {
      session.emplace(engine);
      const std::size_t first = bench.options().cold ? 3 : tokens;
      rows.emplace(engine, std::max(tokens, first), format);
      ENGRAM_TRY(warm_up(*session, engine, *rows, first, workload, work));
    }
    ENGRAM_TRY(session->advance(workload.next(tokens)));
    const std::uint64_t before = reads_of(engine);
    const auto value = seconds_of([&] { return work(*session, engine, *rows); });
    if (!value) return value.error();
    const std::uint64_t reads = reads_of(engine) - before;
    if (round == 0) ENGRAM_TRY(bench.check_rows(*session, format));
    double bound = 0;
    // Of other tokens: rows that were just fetched are in the processor's caches.
    Session others(engine);
    ENGRAM_TRY(others.advance(elsewhere.next(tokens)));
    for (std::size_t table = 0; table < layers_of(engine).size(); ++table) {
      const auto ids = rows_of(others, engine, table);
      if (!ids) return ids.error();
      if (reads != 0 && table != 0) break;  // counted for all tables together
      const auto part = bench.read_bound(static_cast<int>(table), *ids, reads, result.bound_name);
      if (!part) return part.error();
      bound += *part;
    }
    result.add(*value, bound, kMicro, tokens);
  }
  return result;
}

Status step(Session& session, const Engine& engine, Rows& rows) {
  ENGRAM_TRY(session.prefetch(Priority::soon));
  return lookup_all(session, engine, rows);
}

}  // namespace

Result<Bench> Bench::open(const BenchOptions& options, Load load) {
  Bench bench(options);
  bench.load_ = load;
  auto engine = open_engine(options.model, load);
  if (!engine) return std::move(engine).error();
  bench.engine_ = *std::move(engine);
  if (load != Load::addresses) {
    auto warming = warm_behind(options.model, *bench.engine_);
    if (!warming) return std::move(warming).error();
    if (warming->joinable()) warming->join();
  }
  ModelOptions plain = options.model;
  plain.engine.store = StoreOptions();
  plain.engine.cache_bytes = 0;
  plain.ranks.sharded = false;
  plain.resident.clear();
  auto reference = open_engine(plain, load);
  if (!reference) return std::move(reference).error();
  bench.reference_ = *std::move(reference);
  return bench;
}

BenchResult Bench::result(std::string bench, const Workload& workload) const {
  BenchResult result;
  result.bench = std::move(bench);
  result.workload = workload.name();
  result.cold = options_->cold;
  if (engine_->memory() != nullptr) {
    result.tier = tier_name(engine_->memory()->store(0).report().tier);
    if (engine_->memory()->cache_capacity() != 0) result.tier += "+cache";
  }
  return result;
}

Status Bench::reopen_cold() {
  // Mapped pages would stay.
  engine_.reset();
  reference_.reset();
  const auto checkpoint =
      Checkpoint::open(options_->model.model, options_->model.engine.checkpoint);
  if (!checkpoint) return checkpoint.error();
  ENGRAM_TRY(drop_cached(checkpoint->tables()));
  auto again = open(*options_, load_);
  if (!again) return std::move(again).error();
  engine_ = std::move(again->engine_);
  reference_ = std::move(again->reference_);
  return {};
}

Status Bench::check_rows(Session& session, OutputFormat format) const {
  for (std::size_t table = 0; table < layers_of(*engine_).size(); ++table) {
    const auto ids = rows_of(session, *engine_, table);
    if (!ids) return ids.error();
    Rows expected(*reference_, session.length(), format);
    Rows found(*engine_, session.length(), format);
    LookupWorkspace workspace;
    ENGRAM_TRY(reference_->memory()->lookup_rows(static_cast<int>(table), *ids,
                                                 expected.output(table), workspace));
    ENGRAM_TRY(session.lookup(layers_of(*engine_)[table].layer_id, found.output(table)));
    if (expected.bytes(table) != found.bytes(table)) {
      return Error{Code::internal, 0,
                   fmt::format("bench: layer {}: rows differ from the files'",
                               layers_of(*engine_)[table].layer_id)};
    }
  }
  return {};
}

Result<double> Bench::read_bound(int table, std::span<const RowId> rows, std::uint64_t reads,
                                 std::string& name) {
  if (reads != 0) {
    name = "as many reads of the device at once";
    const auto probe = probe_reads(engine_->memory()->store(table).source(), reads,
                                   options_->model.engine.store.read_method, ++seed_);
    if (!probe) return probe.error();
    return probe->seconds;
  }
  name = "touching the rows' cache lines";
  const RowStore& store = engine_->memory()->store(table);
  const RowSizes sizes = store.source().layout.sizes();
  std::vector<RowView> views(rows.size());
  if (store.report().tier == Tier::direct) {
    // All came from the cache: as many rows of a private piece of memory.
    arena_.resize(kArenaBytes);
    for (RowView& view : views) {
      seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
      view = packed_view(sizes, arena_.data() + (seed_ >> 24) % (kArenaBytes - sizes.total()));
    }
  } else {
    ENGRAM_TRY(store.fetch(rows, views, scratch_));
  }
  return seconds_of([&]() -> Status {
    sink_ += touch_lines(views, store.source().layout);
    return {};
  });
}

Result<BenchResult> bench_hash(Bench& bench, Workload& workload) {
  const std::size_t tokens = bench.tokens(kPrefillTokens);
  BenchResult result = bench.result("hash", workload);
  result.tier = "none";
  result.unit = "ns/token";
  result.bound_name = "memcpy of the row ids";
  const Engine& engine = bench.engine();
  const auto columns = static_cast<std::size_t>(engine.hasher().spec().config().columns());
  std::vector<RowId> rows(tokens * columns);
  std::vector<RowId> copy(rows.size());
  Session session(engine);
  for (int round = 0; round < bench.options().rounds; ++round) {
    const std::vector<TokenId> ids = workload.next(tokens);
    const auto value = seconds_of([&]() -> Status {
      ENGRAM_TRY(session.advance(ids));
      for (const LayerHash& layer : layers_of(engine)) {
        ENGRAM_TRY(session.rows(layer.layer_id, rows));
      }
      return {};
    });
    if (!value) return value.error();
    const auto bound = seconds_of([&]() -> Status {
      for (std::size_t i = 0; i < layers_of(engine).size(); ++i) {
        std::memcpy(copy.data(), rows.data(), rows.size() * sizeof(RowId));
      }
      return {};
    });
    result.add(*value, *bound, kNano, tokens);
    // Token by token gives the same last rows.
    Session single(engine);
    for (const TokenId id : std::span(ids).last(std::min<std::size_t>(tokens, 8))) {
      ENGRAM_TRY(single.advance({&id, 1}));
    }
    std::vector<RowId> last(columns);
    ENGRAM_TRY(single.rows(layers_of(engine).back().layer_id, last));
    if (tokens >= 8 &&
        !std::equal(last.begin(), last.end(), rows.end() - static_cast<std::ptrdiff_t>(columns))) {
      return Error{Code::internal, 0, "bench: hashing in one piece and by token differ"};
    }
  }
  return result;
}

Result<BenchResult> bench_decode(Bench& bench, Workload& workload) {
  // Rows of one token over and over: they stay in the nearest cache, so what is left is decoding.
  constexpr std::size_t kRepeats = 400;
  BenchResult result = bench.result("decode", workload);
  result.unit = "ns/row";
  result.bound_name = "memcpy of as many output bytes";
  const Engine& engine = bench.engine();
  Rows rows(engine, 1, OutputFormat::bf16);
  Rows copy(engine, 1, OutputFormat::bf16);
  Session session(engine);
  for (int round = 0; round < bench.options().rounds; ++round) {
    ENGRAM_TRY(session.advance(workload.next(1)));
    const auto ids = rows_of(session, engine, 0);
    if (!ids) return ids.error();
    LookupWorkspace workspace;
    const auto value = seconds_of([&]() -> Status {
      for (std::size_t i = 0; i < kRepeats; ++i) {
        ENGRAM_TRY(engine.memory()->lookup_rows(0, *ids, rows.output(0), workspace));
      }
      return {};
    });
    if (!value) return value.error();
    const auto bound = seconds_of([&]() -> Status {
      for (std::size_t i = 0; i < kRepeats; ++i) {
        std::memcpy(copy.output(0).bytes.data(), rows.bytes(0).data(), rows.bytes(0).size());
        asm volatile("" : : "r"(copy.output(0).bytes.data()) : "memory");
      }
      return {};
    });
    result.add(*value, *bound, kNano, kRepeats * ids->size());
    ENGRAM_TRY(bench.check_rows(session, OutputFormat::bf16));
  }
  return result;
}

Result<BenchResult> bench_gather(Bench& bench, Workload& workload) {
  return bench_rows(bench, workload, "gather", bench.tokens(kPrefillTokens), OutputFormat::bf16,
                    lookup_all);
}

Result<BenchResult> bench_store(Bench& bench, Workload& workload) {
  return bench_rows(bench, workload, "store", bench.tokens(64), OutputFormat::raw, lookup_all);
}

Result<BenchResult> bench_prefill(Bench& bench, Workload& workload) {
  return bench_rows(bench, workload, "prefill", bench.tokens(kPrefillTokens), OutputFormat::bf16,
                    step);
}

Result<BenchResult> bench_decode_step(Bench& bench, Workload& workload) {
  return bench_rows(bench, workload, "decode-step", 1, OutputFormat::bf16, step);
}

Result<BenchResult> bench_gate(Bench& bench, Workload& workload) {
  const std::size_t tokens = bench.tokens(1);
  BenchResult result = bench.result("gate", workload);
  result.unit = "us/token";
  result.bound_name = "reading the bytes of wkv";
  const Engine& engine = bench.engine();
  const std::int64_t layer = layers_of(engine).front().layer_id;
  const GateShape shape = engine.gate(0)->shape();
  const Stream stream(engine.checkpoint().gates().front().wkv.size_bytes);
  Session session(engine);
  std::uint64_t sum = 0;
  for (int round = 0; round < bench.options().rounds; ++round) {
    std::vector<float> hidden(tokens * shape.copies * shape.hidden_dim, 0.5f);
    ENGRAM_TRY(session.advance(workload.next(tokens)));
    const auto value =
        seconds_of([&] { return session.apply(layer, hidden, Rounding::reference); });
    if (!value) return value.error();
    const auto bound = seconds_of([&]() -> Status {
      sum += stream.read(engine.threads());
      return {};
    });
    result.add(*value, *bound, kMicro, tokens);
  }
  if (sum == 0) return Error{Code::internal, 0, "bench: nothing was read"};
  return result;
}

}  // namespace engram::cli
