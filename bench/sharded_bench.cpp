// What it costs to share a table: mpirun -n 2 bench_sharded MODEL [TOKEN IDS]
//
// Exchanges of batches of every size, each rank with rows of its own, tier ram; checked against the
// whole table, which every rank has too. Beside each, in the same run: the same batch from the
// whole table on all ranks at once, the time in which MPI alone moves as many bytes, and
// what a model of latency and bandwidth, fitted to the second smallest and the largest batch,
// predicts for the others. Spread: rows from all over the table, so that gathering them misses the
// caches; close: rows from a few hundred kilobytes, so that the exchange itself is what is timed.
// With a file of token ids: how evenly partitions spread the reads of real text.
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

void check_rows(const RowStore& store, const RowStore& whole, Batch& batch) {
  FetchScratch scratch;
  std::vector<RowView> expected(batch.rows.size());
  if (!whole.fetch(batch.rows, expected, scratch)) give_up("cannot read the files");
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
  double alone_seconds;
  double transport_seconds;
};

// The same bytes as one message each, without anything to gather: what MPI itself gives.
double transport_seconds(int bytes) {
  MPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  std::vector<char> from(static_cast<std::size_t>(bytes) + 1, 1);
  std::vector<char> to(from.size());
  return seconds_of([&] {
    MPI_Sendrecv(from.data(), bytes, MPI_BYTE, (g_rank + 1) % g_world, 0, to.data(), bytes,
                 MPI_BYTE, (g_rank + g_world - 1) % g_world, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
}

Point measure(const RowStore& store, const RowStore& whole, std::size_t tokens, bool close) {
  std::mt19937_64 random(static_cast<std::uint64_t>(g_rank) * 1000 + tokens);
  constexpr std::uint64_t kStride = 1201;  // of close rows: every column has some
  const std::uint64_t row_count = store.source().row_count;
  Batch batch;
  batch.rows.resize(tokens * 24);
  for (RowId& row : batch.rows) {
    row = static_cast<RowId>(close ? random() % (row_count / kStride) * kStride
                                   : random() % row_count);
  }
  batch.views.resize(batch.rows.size());
  fetch(store, batch);
  check_rows(store, whole, batch);
  const std::uint64_t before = exchange_stats(store).bytes_received;
  Point point{tokens, 0, seconds_of([&] { fetch(store, batch); }), 0, 0};
  point.received = static_cast<double>(exchange_stats(store).bytes_received - before) / kRounds;
  const RowSizes sizes = store.source().layout.sizes();
  std::vector<std::byte> packed(batch.rows.size() * sizes.total());
  point.alone_seconds = seconds_of([&] {
    fetch(whole, batch);
    for (std::size_t i = 0; i < batch.views.size(); ++i) {
      if (i + 8 < batch.views.size()) __builtin_prefetch(batch.views[i + 8].codes);
      std::memcpy(packed.data() + i * sizes.total(), batch.views[i].codes, sizes.total());
    }
  });
  point.transport_seconds = transport_seconds(static_cast<int>(point.received));
  return point;
}

void exchanges(const RowStore& store, const RowStore& whole, bool close) {
  std::vector<Point> points;
  for (const std::size_t tokens : {1, 8, 64, 512, 2048, 8192}) {
    points.push_back(measure(store, whole, tokens, close));
  }
  if (g_rank != 0) return;
  const Point& small = points[1];
  const Point& large = points.back();
  const double per_byte = (large.seconds - small.seconds) / (large.received - small.received);
  const double latency = small.seconds - small.received * per_byte;
  std::printf("%s rows; model: %.1f us + bytes / %.2f GB/s\n", close ? "close" : "spread",
              latency * 1e6, 1e-9 / per_byte);
  for (const Point& point : points) {
    std::printf(
        "%5zu tokens: %8.0f us (model %8.0f), %8.0f bytes in; whole table %8.0f us; "
        "MPI alone %7.0f us\n",
        point.tokens, point.seconds * 1e6, (latency + point.received * per_byte) * 1e6,
        point.received, point.alone_seconds * 1e6, point.transport_seconds * 1e6);
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
    options.store.tier = Tier::ram;
    const Engine whole = value_of(Engine::open(argv[1], options));
    const Engine engine =
        value_of(Engine::open(argv[1], options, sharded_stores(MPI_COMM_WORLD, {})));
    if (g_rank == 0) std::printf("%d ranks, strided, 264 bytes a row\n", g_world);
    for (const bool close : {false, true}) {
      exchanges(engine.memory()->store(0), whole.memory()->store(0), close);
    }
    if (argc > 2 && g_rank == 0) {
      for (const int world : {2, 3, 4, 5, 8, 16}) spread(whole, argv[2], world);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
