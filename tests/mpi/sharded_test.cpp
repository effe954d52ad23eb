// Tables over ranks against one process's own: run under mpirun with any number of ranks.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include "tests/mpi/support.hpp"

namespace engram {
namespace {

using namespace std::chrono_literals;
using test::rank;
using test::world;

constexpr Partition kPartitions[] = {Partition::rows, Partition::heads, Partition::strided,
                                     Partition::layer_order};

ShardedOptions over(Partition by, Exchange exchange = Exchange::packed) {
  return {by, exchange, 20s};
}

Result<Engine> open_sharded(const std::string& path, Tier tier, const ShardedOptions& options) {
  return Engine::open(path, test::rows_of(tier), sharded_stores(MPI_COMM_WORLD, options));
}

// Fails with this code and words, on every rank.
template <typename T>
void expect_failure(const T& result, Code code, const std::string& words) {
  ASSERT_FALSE(result);
  EXPECT_EQ(code_name(result.error().code), code_name(code)) << result.error().message;
  EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
}

class Sharded : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test::make_small_model(model_));
    auto reference = Engine::open(model_, test::rows_of(Tier::mmap));
    ASSERT_TRUE(reference);
    reference_.emplace(*std::move(reference));
  }

  std::uint64_t row_count(int table) const {
    return reference_->hasher().spec().layers()[static_cast<std::size_t>(table)].row_count;
  }

  void expect_equal_rows(const Engine& engine, int table, const std::vector<RowId>& rows) {
    Status expected_status;
    Status status;
    const auto expected = test::raw_rows(*reference_, table, rows, expected_status);
    const auto found = test::raw_rows(engine, table, rows, status);
    ASSERT_TRUE(expected_status);
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(found, expected);
  }

  // A step of a session: both layers, prefetched or not.
  void expect_equal_steps(Session& session, Session& reference, bool prefetch,
                          const std::vector<TokenId>& tokens) {
    ASSERT_TRUE(session.advance(tokens));
    ASSERT_TRUE(reference.advance(tokens));
    if (prefetch) {
      ASSERT_TRUE(session.prefetch());
    }
    for (const std::int64_t layer : {1, 14}) {
      std::vector<std::byte> found(tokens.size() * 24 * 512);
      std::vector<std::byte> expected(found.size());
      const Status status = session.lookup(layer, {OutputFormat::bf16, found, 0});
      ASSERT_TRUE(status) << status.error().message;
      ASSERT_TRUE(reference.lookup(layer, {OutputFormat::bf16, expected, 0}));
      EXPECT_EQ(found, expected);
    }
  }

  test::SharedFolder folder_;
  std::string model_ = folder_.path() + "/model";
  std::optional<Engine> reference_;
};

// Batches that differ in size per rank, empty ones among them, all rows of a column, repeats.
TEST_F(Sharded, EqualsOneProcess) {
  for (const Partition by : kPartitions) {
    for (const Tier tier : {Tier::ram, Tier::mmap, Tier::direct}) {
      SCOPED_TRACE(std::string(partition_name(by)) + " " + std::string(tier_name(tier)));
      const auto engine = open_sharded(model_, tier, over(by));
      ASSERT_TRUE(engine) << engine.error().message;
      EXPECT_EQ(engine->memory()->store(0).report().tier, Tier::sharded);
      std::mt19937_64 random(static_cast<std::uint64_t>(100 + rank()));
      for (int round = 0; round < 6; ++round) {
        const int table = round % 2;
        const std::size_t count = (round + rank()) % 3 == 0 ? 0 : random() % 500;
        expect_equal_rows(*engine, table, test::random_rows(random, row_count(table), count));
      }
      expect_equal_rows(*engine, 1, {0, 0, static_cast<RowId>(row_count(1)) - 1, 0});
    }
  }
}

TEST_F(Sharded, EqualsOneProcessByAllReduce) {
  for (const Partition by : kPartitions) {
    const auto engine = open_sharded(model_, Tier::ram, over(by, Exchange::reduced));
    ASSERT_TRUE(engine) << engine.error().message;
    std::mt19937_64 random(7);  // the same batch on every rank
    for (const std::size_t count : {std::size_t{300}, std::size_t{0}, std::size_t{1}}) {
      expect_equal_rows(*engine, 0, test::random_rows(random, row_count(0), count));
    }
    Session session(*engine);
    Session reference(*reference_);
    expect_equal_steps(session, reference, true, {5, 6, 7, 8});
  }
}

TEST_F(Sharded, RefusesDifferentBatchesToReduce) {
  const auto engine = open_sharded(model_, Tier::mmap, over(Partition::rows, Exchange::reduced));
  ASSERT_TRUE(engine);
  Status status;
  test::raw_rows(*engine, 0, {rank(), 5}, status);
  if (world() == 1) {
    EXPECT_TRUE(status);
    return;
  }
  expect_failure(status, Code::unavailable, "looks up other rows");
  test::raw_rows(*engine, 0, {5}, status);  // and from then on
  expect_failure(status, Code::unavailable, "looks up other rows");
}

// Data-parallel callers with sequences of their own, caches and drafts; both layers of a step share
// one exchange.
TEST_F(Sharded, SessionsOfEveryRank) {
  for (const std::uint64_t cache : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
    EngineOptions options = test::rows_of(Tier::ram);
    options.cache_bytes = cache;
    const auto engine =
        Engine::open(model_, options, sharded_stores(MPI_COMM_WORLD, over(Partition::strided)));
    ASSERT_TRUE(engine) << engine.error().message;
    Session session(*engine);
    Session reference(*reference_);
    std::mt19937_64 random(static_cast<std::uint64_t>(rank()));
    for (int step = 0; step < 12; ++step) {
      std::vector<TokenId> tokens(step % 3 == rank() % 3 ? 0 : 1 + random() % 20);
      for (TokenId& token : tokens) token = static_cast<TokenId>(5 + random() % 40);
      Session drafts = session;  // rejected: begun, never waited for
      ASSERT_TRUE(drafts.prepare(tokens));
      ASSERT_TRUE(drafts.prefetch(Priority::whenever));
      const std::uint64_t before = exchange_stats(engine->memory()->store(0)).exchanges;
      expect_equal_steps(session, reference, true, tokens);
      EXPECT_EQ(exchange_stats(engine->memory()->store(1)).exchanges, before + 1);
      expect_equal_steps(session, reference, false, tokens);
    }
  }
}

// Ids at 8 bytes and rows at 264 are all there is to send, but for headers.
TEST_F(Sharded, SendsLittleMoreThanTheRows) {
  if (world() == 1) return;
  const auto engine = open_sharded(model_, Tier::ram, over(Partition::strided));
  ASSERT_TRUE(engine);
  std::mt19937_64 random(3);
  expect_equal_rows(*engine, 0, test::random_rows(random, row_count(0), 4000));
  const ExchangeStats stats = exchange_stats(engine->memory()->store(0));
  const std::uint64_t least = stats.rows_asked * 8 + stats.rows_answered * 264;
  EXPECT_GT(stats.rows_asked, 0u);
  EXPECT_LT(stats.bytes_sent, least + least / 20);
  EXPECT_GE(stats.bytes_sent, least);
}

TEST_F(Sharded, ReadsEachRanksOwnDirectory) {
  for (const Partition by : kPartitions) {
    const std::string shards = folder_.path() + "/" + std::string(partition_name(by));
    ASSERT_TRUE(test::on_first_rank([&] {
      const auto source = Checkpoint::open(model_);
      ShardOptions options;
      options.world = world();
      options.by = by;
      return source && shard(*source, shards, options).has_value();
    }));
    const std::string number = std::to_string(rank());
    const std::string own = shards + "/rank-" + std::string(5 - number.size(), '0') + number;
    for (const Tier tier : {Tier::ram, Tier::direct}) {
      const auto engine = open_sharded(own, tier, over(by));
      ASSERT_TRUE(engine) << engine.error().message;
      std::mt19937_64 random(static_cast<std::uint64_t>(rank()));
      for (const int table : {0, 1}) {
        expect_equal_rows(*engine, table, test::random_rows(random, row_count(table), 200));
      }
    }
    if (world() == 1) continue;
    // The wrong rank's directory, and the right one by another partition.
    const std::string wrong = shards + "/rank-00000";
    expect_failure(open_sharded(wrong, Tier::mmap, over(by)),
                   rank() == 0 ? Code::unavailable : Code::invalid_argument, "found rank 0 of");
    const Partition other = by == Partition::rows ? Partition::heads : Partition::rows;
    expect_failure(open_sharded(own, Tier::mmap, over(other)), Code::invalid_argument,
                   "by " + std::string(partition_name(by)));
  }
}

TEST_F(Sharded, RanksThatDoNotFitTogetherAreRefused) {
  if (world() == 1) return;
  const std::string other = folder_.path() + "/other";
  ASSERT_TRUE(test::make_small_model(other, 1200));
  const bool odd = rank() == world() - 1;
  expect_failure(open_sharded(odd ? other : model_, Tier::mmap, over(Partition::rows)),
                 Code::invalid_argument, "rows of layer 1: rank 0 has ");
  expect_failure(open_sharded(model_, Tier::mmap, over(odd ? Partition::heads : Partition::rows)),
                 Code::invalid_argument, "partition: rank 0 has rows, rank");
  // Where one rank cannot open its rows, all know why.
  StoreOptions nowhere;
  nowhere.tier = Tier::shared;
  nowhere.shared.name = "engram-mpi-test-not-there";
  EngineOptions options = test::rows_of(Tier::mmap);
  if (odd) options.store = nowhere;
  expect_failure(
      Engine::open(model_, options, sharded_stores(MPI_COMM_WORLD, over(Partition::rows))),
      odd ? Code::not_found : Code::unavailable, "engram-mpi-test-not-there");
}

// A damaged page fails the lookups that ask for it, with the owner's words, and no others.
TEST_F(Sharded, AnOwnersErrorReachesWhoAsked) {
  const std::string paged = folder_.path() + "/paged";
  ASSERT_TRUE(test::on_first_rank([&] {
    const auto source = Checkpoint::open(model_);
    if (!source || !convert(*source, paged, {}).has_value()) return false;
    const auto made = Checkpoint::open(paged);
    if (!made) return false;
    const TensorExtent& pages = made->tables()[0].weight;  // page 3: rows 45 .. 59
    std::fstream file(pages.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(pages.offset_bytes + 3 * 4096 + 100));
    file.put('\x55').put('\x55').put('\x55');
    return file.good();
  }));
  const auto engine = open_sharded(paged, Tier::direct, over(Partition::rows));
  ASSERT_TRUE(engine) << engine.error().message;
  Status status;
  const bool asks = rank() == world() - 1;
  test::raw_rows(*engine, 0, asks ? std::vector<RowId>{50, 200} : std::vector<RowId>{1, 200},
                 status);
  if (asks) {
    expect_failure(status, Code::corrupt, world() == 1 ? "page 3" : "rank 0: ");
  } else {
    EXPECT_TRUE(status) << status.error().message;
  }
  expect_equal_rows(*engine, 0, {1, 2, 3, 700, 20000});
  // A row outside the table is the caller's own fault, and nobody else's.
  test::raw_rows(*engine, 0, {asks ? RowId{1} << 40 : RowId{7}}, status);
  EXPECT_EQ(status.has_value(), !asks);
}

TEST_F(Sharded, ARankThatStaysAwayIsAnErrorInTime) {
  if (world() == 1) return;
  const ShardedOptions options{Partition::strided, Exchange::packed, 2000ms};
  const auto engine = open_sharded(model_, Tier::ram, options);
  ASSERT_TRUE(engine);
  expect_equal_rows(*engine, 0, {1, 2, 3});
  if (rank() != world() - 1) {
    for (int i = 0; i < 100; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      Status status;
      test::raw_rows(*engine, 0, {4, 5, 6, 900, 1901, 5000}, status);
      expect_failure(status, Code::unavailable, i == 0 ? "within 2000 ms" : "within");
      EXPECT_LT(std::chrono::steady_clock::now() - begin, i == 0 ? 20s : 2s);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace engram

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  if (engram::test::rank() != 0) {
    // One voice is enough while all is well; failures are printed by every rank.
    ::testing::UnitTest::GetInstance()->listeners().Release(
        ::testing::UnitTest::GetInstance()->listeners().default_result_printer());
    class Failures : public ::testing::EmptyTestEventListener {
      void OnTestPartResult(const ::testing::TestPartResult& result) override {
        if (!result.failed()) return;
        std::fprintf(stderr, "rank %d: %s:%d: %s\n", engram::test::rank(), result.file_name(),
                     result.line_number(), result.message());
      }
    };
    ::testing::UnitTest::GetInstance()->listeners().Append(new Failures);
  }
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
