// How near does tier direct come to the device? Random rows of a paged table of 1 GiB on disk, past
// the page cache, against as many random page reads of the same file through the same ring.
#include <benchmark/benchmark.h>

#include <cstring>

#include "engram/row_store.hpp"
#include "engram/table.hpp"

#include "bench/paired.hpp"
#include "os/block_reader.hpp"
#include "tests/support/random.hpp"
#include "tests/support/temporary.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kPages = 1 << 18;
constexpr std::uint64_t kRows = kPages * 15;
constexpr std::uint64_t kIdentity = 77;

// Every row begins with its own id.
class Table {
 public:
  Table() {
    source_.layer_id = 1;
    source_.layout = {RowFormat::fp8_e4m3_e8m0, 256};
    source_.placement = RowPlacement::paged;
    source_.row_count = kRows;
    source_.page_identity = kIdentity;
    source_.weight = {"pages",
                      folder_ / "table",
                      "U8",
                      {kPages, kPageBytes},
                      0,
                      kPages * kPageBytes,
                      kPages * kPageBytes};
    auto file = os::WritableFile::create(source_.weight.path);
    std::vector<std::byte> page(kPageBytes, std::byte{0x38});
    for (std::uint64_t number = 0; file && number < kPages; ++number) {
      for (std::uint64_t i = 0; i < 15; ++i) {
        const std::uint64_t row = number * 15 + i;
        std::memcpy(page.data() + i * 264, &row, sizeof(row));
      }
      seal_page(page, number, kIdentity);
      if (!file->append(page)) break;
    }
    if (file) (void)file->sync_and_close();
  }
  const TableSource& source() const { return source_; }

 private:
  test::TemporaryDirectory folder_;
  TableSource source_;
};

class Ignore final : public os::BlockSink {
 public:
  Status take(std::size_t, std::span<const std::byte>) override { return {}; }
};

void rows_against_pages(benchmark::State& state) {
  const Table table;
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto file = os::DirectFile::open(table.source().weight.path);
  const auto reader = os::make_block_reader(ReadMethod::uring);
  const auto store = open_row_store(table.source(), {Tier::direct, 1, {}, ReadMethod::uring});
  if (!file || !reader || !store) return state.SkipWithError("no ring");
  test::Random random(3);
  std::vector<os::BlockRead> reads(count);
  std::vector<RowId> rows(count);
  std::vector<RowView> views(count);
  FetchScratch scratch;
  Ignore ignore;
  bool right = true;
  bench::paired(
      state, static_cast<double>(count),
      [&] {
        for (os::BlockRead& read : reads) {
          read = {&*file, random.below(kPages) * kPageBytes, kPageBytes, kPageBytes};
        }
        (*reader)->begin(reads, ignore, Priority::now);
        right &= (*reader)->finish().has_value();
      },
      [&] {
        for (RowId& row : rows) row = static_cast<RowId>(random.below(kRows));
        right &= (*store)->fetch(rows, views, scratch).has_value();
        for (std::size_t i = 0; right && i < count; ++i) {
          right = std::memcmp(views[i].codes, &rows[i], sizeof(RowId)) == 0;
        }
      });
  if (!right) state.SkipWithError("wrong rows");
}
BENCHMARK(rows_against_pages)->Arg(48)->Arg(3072)->UseManualTime()->MinTime(2);

}  // namespace
}  // namespace engram
