// What it costs to share a table: mpirun -n 2 bench_sharded MODEL [TOKENIZED.txt]
//
// Exchanges of batches of every size, each rank with rows of its own, tier ram; checked against the
// files. Beside each, in the same run: the time in which all ranks at once copy as many bytes as
// they receive, and what a model of latency and bandwidth, fitted to the smallest and the largest
// batch, predicts for the others. With a file of token ids: how evenly partitions spread the reads
// of real text, and how much is sent of what must be.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engram/engine.hpp"
#include "engram/mpi.hpp"

namespace {

using namespace engram;  // NOLINT(google-build-using-namespace): a program

constexpr int kRounds = 15;

int g_rank = 0;
int g_world = 1;

[[noreturn]] void give_up(const std::string& message) {
  std::fprintf(stderr, "bench_sharded: rank %d: %s\n", g_rank, message.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::exit(1);
}

template <typename T>
T value_of(Result<T> result) {
  if (!result) give_up(result.error().message);
  return *std::move(result);
}

// The slowest rank's seconds, the best of some rounds.
template <typename Work>
double seconds_of(Work work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    work();
    double passed = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &passed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    best = std::min(best, passed);
  }
  return best;
}

struct Batch {
  std::vector<RowId> rows;
  std::vector<RowView> views;
  FetchScratch scratch;
};

void fetch(const RowStore& store, Batch& batch) {
  const Status status = store.fetch(batch.rows, batch.views, batch.scratch);
  if (!status) give_up(status.error().message);
}

void check_rows(const RowStore& store, const RowStore& plain, Batch& batch) {
  FetchScratch scratch;
  std::vector<RowView> expected(batch.rows.size());
  if (!plain.fetch(batch.rows, expected, scratch)) give_up("cannot read the files");
  const RowSizes sizes = store.source().layout.sizes();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(expected[i].codes, batch.views[i].codes, sizes.codes) != 0 ||
        (sizes.scales != 0 &&
         std::memcmp(expected[i].scales, batch.views[i].scales, sizes.scales) != 0)) {
      give_up("row " + std::to_string(batch.rows[i]) + " is wrong");
    }
  }
}

struct Point {
  std::size_t tokens;
  double received;  // bytes
  double seconds;
  double copy_seconds;
};

Point measure(const RowStore& store, const RowStore& plain, std::size_t tokens) {
  std::mt19937_64 random(static_cast<std::uint64_t>(g_rank) * 1000 + tokens);
  Batch batch;
  batch.rows.resize(tokens * 24);
  for (RowId& row : batch.rows) row = static_cast<RowId>(random() % store.source().row_count);
  batch.views.resize(batch.rows.size());
  fetch(store, batch);
  check_rows(store, plain, batch);
  const std::uint64_t before = exchange_stats(store).bytes_received;
  Point point{tokens, 0, seconds_of([&] { fetch(store, batch); }), 0};
  point.received = static_cast<double>(exchange_stats(store).bytes_received - before) / kRounds;
  const auto bytes = static_cast<std::size_t>(point.received) + 1;
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes);
  point.copy_seconds = seconds_of([&] { std::memcpy(to.data(), from.data(), bytes); });
  return point;
}

void exchanges(const RowStore& store, const RowStore& plain) {
  std::vector<Point> points;
  for (const std::size_t tokens : {1, 8, 64, 512, 2048, 8192}) {
    points.push_back(measure(store, plain, tokens));
  }
  if (g_rank != 0) return;
  const Point& small = points.front();
  const Point& large = points.back();
  const double per_byte = (large.seconds - small.seconds) / (large.received - small.received);
  const double latency = small.seconds - small.received * per_byte;
  std::printf("model: %.1f us + bytes / %.2f GB/s\n", latency * 1e6, 1e-9 / per_byte);
  for (const Point& point : points) {
    std::printf(
        "%5zu tokens: %9.1f us, %10.0f bytes in, %5.2f GB/s; copying them %8.1f us (%3.0f %%); "
        "model %9.1f us\n",
        point.tokens, point.seconds * 1e6, point.received, point.received / point.seconds * 1e-9,
        point.copy_seconds * 1e6, 100 * point.copy_seconds / point.seconds,
        (latency + point.received * per_byte) * 1e6);
  }
}

// Distinct rows per batch of 512 tokens, by rank.
void spread(const Engine& engine, const std::string& path, int world) {
  std::ifstream file(path);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; file >> token;) tokens.push_back(token);
  if (tokens.empty()) give_up(path + ": no token ids");
  const HashSpec& spec = engine.hasher().spec();
  for (const Partition by :
       {Partition::rows, Partition::heads, Partition::strided, Partition::layer_order}) {
    std::vector<double> reads(static_cast<std::size_t>(world));
    for (std::size_t begin = 0; begin < tokens.size(); begin += 512) {
      const auto chunk =
          std::span(tokens).subspan(begin, std::min<std::size_t>(512, tokens.size() - begin));
      Session session(engine);
      if (!session.advance(chunk)) give_up("cannot hash");
      for (std::size_t table = 0; table < spec.layers().size(); ++table) {
        std::vector<RowId> rows(chunk.size() * 24);
        if (!session.rows(spec.layers()[table].layer_id, rows)) give_up("cannot hash");
        const ShardMap map = value_of(ShardMap::create(spec, static_cast<int>(table), by, world));
        for (const RowId row : std::set<RowId>(rows.begin(), rows.end())) {
          ++reads[static_cast<std::size_t>(map.owner(row)->rank)];
        }
      }
    }
    double total = 0;
    for (const double each : reads) total += each;
    const double most = *std::max_element(reads.begin(), reads.end());
    const double least = *std::min_element(reads.begin(), reads.end());
    std::printf("world %2d, %-11s: busiest rank %.3f of even, idlest %.3f\n", world,
                std::string(partition_name(by)).c_str(), most / (total / world),
                least / (total / world));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_world);
  if (argc < 2) give_up("expected MODEL [TOKEN IDS]");
  {
    EngineOptions options;
    options.load = Load::rows;
    const Engine plain = value_of(Engine::open(argv[1], options));
    options.store.tier = Tier::ram;
    const Engine engine =
        value_of(Engine::open(argv[1], options, sharded_stores(MPI_COMM_WORLD, {})));
    if (g_rank == 0)
      std::printf("%d ranks, strided, rows of %zu bytes\n", g_world,
                  engine.memory()->output_bytes(0, OutputFormat::raw));
    exchanges(engine.memory()->store(0), plain.memory()->store(0));
    if (argc > 2 && g_rank == 0) {
      for (const int world : {2, 3, 4, 5, 8, 16}) spread(plain, argv[2], world);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
