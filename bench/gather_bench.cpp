// What does a lookup cost beyond the memory it must touch? Random rows of an 8 GiB table in huge
// pages, 768 rows a call (32 tokens), through Memory::lookup_rows: check, unique, copy, decode,
// scatter. Bound of the first: loading one byte of each of the same rows' five cache lines. The
// second measures the loop that decodes while it gathers, for comparison.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "engram/memory.hpp"

#include "bench/paired.hpp"
#include "codec/row_codec.hpp"
#include "os/memory.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

constexpr std::size_t kRowBytes = 264;
constexpr std::size_t kTableBytes = std::size_t{8} << 30;
constexpr std::size_t kTableRows = kTableBytes / kRowBytes;
constexpr std::size_t kBatchRows = 768;
constexpr std::size_t kBatches = 512;  // distinct batches, so that no row comes back from a cache
constexpr RowLayout kLayout{RowFormat::fp8_e4m3_e8m0, 256};

// The ram tier's layout, filled in memory.
class BenchStore final : public RowStore {
 public:
  static std::unique_ptr<BenchStore> make() {
    auto rows = os::HugeBuffer::allocate(kTableBytes);
    if (!rows) return nullptr;
    auto store = std::unique_ptr<BenchStore>(new BenchStore(*std::move(rows)));
    test::Random random(3);
    std::vector<std::uint64_t> block(kRowBytes * 64 / 8);
    for (std::uint64_t& word : block) word = random.next() & 0x3F3F'3F3F'3F3F'3F3F;  // no NaN
    auto* bytes = reinterpret_cast<std::uint8_t*>(block.data());
    for (std::size_t row = 0; row < 64; ++row) std::memset(bytes + row * 264 + 256, 0x77, 8);
    for (std::size_t at = 0; at + block.size() * 8 <= kTableBytes; at += block.size() * 8) {
      std::memcpy(store->rows_.bytes().data() + at, bytes, block.size() * 8);
    }
    return store;
  }

  const TableSource& source() const override { return source_; }
  StoreReport report() const override {
    return {Tier::ram, kTableBytes, kTableBytes, rows_.huge_bytes(), {}};
  }
  const std::byte* row(RowId id) const {
    return rows_.bytes().data() + static_cast<std::size_t>(id) * kRowBytes;
  }
  Status begin(std::span<const RowId> /*ids*/, FetchScratch& /*scratch*/,
               Priority /*priority*/) const override {
    return {};
  }
  Status finish(std::span<const RowId> ids, std::span<RowView> views,
                FetchScratch& /*scratch*/) const override {
    for (std::size_t i = 0; i < ids.size(); ++i)
      views[i] = {row(ids[i]), row(ids[i]) + 256, nullptr};
    return {};
  }

 private:
  explicit BenchStore(os::HugeBuffer rows) : rows_(std::move(rows)) {
    source_.layer_id = 1;
    source_.row_count = kTableRows;
    source_.layout = kLayout;
  }
  os::HugeBuffer rows_;
  TableSource source_;
};

// The table, the batches, and what every measurement of one batch needs.
class Bed {
 public:
  static Bed* get() {
    static const std::unique_ptr<Bed> bed = make();
    return bed.get();
  }

  std::span<const RowId> next_batch() {
    batch_ = (batch_ + 1) % kBatches;
    return std::span(rows_).subspan(batch_ * kBatchRows, kBatchRows);
  }
  std::span<const RowId> batch() const {
    return std::span(rows_).subspan(batch_ * kBatchRows, kBatchRows);
  }

  // One byte of each of the five lines of every row, all rows independent.
  void touch(std::span<const RowId> rows) {
    std::uint64_t sum = 0;
    for (const RowId id : rows) {
      const std::byte* row = store_->row(id);
      for (std::size_t line = 0; line < 5; ++line) {
        sum += static_cast<std::uint64_t>(row[std::min<std::size_t>(line * 64, kRowBytes - 1)]);
      }
    }
    benchmark::DoNotOptimize(sum);
  }

  bool lookup(std::span<const RowId> rows) {
    const RowOutput output{OutputFormat::bf16, std::as_writable_bytes(std::span(out_)), 0};
    return memory_->lookup_rows(0, rows, output, workspace_).has_value();
  }

  // Gather and decode in one loop: what not to do.
  void fused(std::span<const RowId> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::byte* to = reinterpret_cast<std::byte*>(fused_.data() + i * 256);
      decode_rows(kLayout, OutputFormat::bf16, store_->row(rows[i]), {&to, 1});
    }
  }

  bool agrees() const { return out_ == fused_; }
  double huge_share() const {
    return static_cast<double>(store_->report().huge_bytes) / static_cast<double>(kTableBytes);
  }

 private:
  static std::unique_ptr<Bed> make() {
    auto store = BenchStore::make();
    HashConfig config;
    config.layer_ids = {1};
    config.first_prime_at_least = 1'000'000;
    config.compressed_size = 99'092;
    auto spec = HashSpec::compute(config);
    if (!store || !spec) return nullptr;
    auto bed = std::make_unique<Bed>();
    bed->store_ = store.get();
    std::vector<std::unique_ptr<RowStore>> stores;
    stores.push_back(std::move(store));
    auto memory = Memory::create(Hasher(*std::move(spec)), std::move(stores), NanPolicy::propagate);
    if (!memory) return nullptr;
    bed->memory_ = std::make_unique<Memory>(*std::move(memory));
    test::Random random(4);
    bed->rows_.resize(kBatches * kBatchRows);
    for (RowId& row : bed->rows_) row = static_cast<RowId>(random.below(kTableRows));
    bed->out_.resize(kBatchRows * 256);
    bed->fused_.resize(kBatchRows * 256);
    return bed;
  }

  const BenchStore* store_ = nullptr;
  std::unique_ptr<Memory> memory_;
  LookupWorkspace workspace_;
  std::vector<RowId> rows_;
  std::vector<std::uint16_t> out_;
  std::vector<std::uint16_t> fused_;
  std::size_t batch_ = 0;
};

void lookup_against_touch(benchmark::State& state) {
  Bed* bed = Bed::get();
  if (bed == nullptr) return state.SkipWithError("not enough memory for 8 GiB");
  bool ok = true;
  bench::paired(
      state, kBatchRows, [&] { bed->touch(bed->next_batch()); },
      [&] { ok = bed->lookup(bed->next_batch()) && ok; });
  bed->fused(bed->batch());
  if (!ok || !bed->agrees()) state.SkipWithError("wrong rows");
  state.counters["huge_share"] = bed->huge_share();
}
BENCHMARK(lookup_against_touch)->UseManualTime()->MinTime(2);

void lookup_against_fused(benchmark::State& state) {
  Bed* bed = Bed::get();
  if (bed == nullptr) return state.SkipWithError("not enough memory for 8 GiB");
  bench::paired(
      state, kBatchRows, [&] { bed->fused(bed->next_batch()); },
      [&] { bed->lookup(bed->next_batch()); });
}
BENCHMARK(lookup_against_fused)->UseManualTime()->MinTime(2);

}  // namespace
}  // namespace engram
