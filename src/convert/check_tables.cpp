// Reads rows of every table and says where the first bad one is.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "engram/convert.hpp"

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "checkpoint/table_reader.hpp"
#include "codec/row_codec.hpp"
#include "convert/scale_bytes.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kStretchRows = 4096;
constexpr std::uint64_t kSampledStretches = 64;

// Stretches of kStretchRows rows, all of them or some spread over the table.
std::uint64_t stretch_count(const TableSource& table, CheckLevel level) {
  const std::uint64_t all = (table.held_count() + kStretchRows - 1) / kStretchRows;
  if (level == CheckLevel::headers) return 0;
  return level == CheckLevel::full ? all : std::min(all, kSampledStretches);
}

class Checker {
 public:
  Checker(const TableReader& reader, std::uint64_t stretches)
      : reader_(reader), stretches_(stretches) {}

  // Every stretch is read, whatever comes before it: the error is that of the first bad row.
  Status check(std::size_t index) {
    const std::uint64_t all = (reader_.source().held_count() + kStretchRows - 1) / kStretchRows;
    const std::uint64_t first = all * index / stretches_ * kStretchRows;
    const std::uint64_t count = std::min(kStretchRows, reader_.source().held_count() - first);
    const RowLayout& layout = reader_.source().layout;
    std::vector<std::byte> rows(count * layout.row_bytes());
    Status status = reader_.read(first, count, rows);
    if (status) {
      for (std::uint64_t i = 0; i < count && status; ++i) {
        if (row_is_finite(layout, rows.data() + i * layout.row_bytes())) continue;
        status = make_error(Code::corrupt, "{}: layer {}: row {} holds a NaN or an infinity",
                            reader_.source().weight.path, reader_.source().layer_id,
                            reader_.source().global_row(first + i));
      }
    }
    const std::lock_guard lock(mutex_);
    rows_ += count;
    count_scale_bytes(layout, rows, scales_);
    if (!status && first < first_bad_) {
      first_bad_ = first;
      error_ = std::move(status).error();
    }
    return {};
  }

  Result<TableCheck> result() const {
    if (first_bad_ != kNone) return error_;
    TableCheck check{reader_.source().layer_id, rows_, -1, -1};
    for (int byte = 0; byte < static_cast<int>(scales_.size()); ++byte) {
      if (scales_[static_cast<std::size_t>(byte)] == 0) continue;
      if (check.scale_min < 0) check.scale_min = byte;
      check.scale_max = byte;
    }
    return check;
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const TableReader& reader_;
  std::uint64_t stretches_;
  std::mutex mutex_;
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> scales_;
  std::uint64_t first_bad_ = kNone;
  Error error_;
};

}  // namespace

Result<std::vector<TableCheck>> check_tables(const Checkpoint& model, CheckLevel level, int threads,
                                             const Progress& progress) {
  std::uint64_t total = 0;
  for (const TableSource& table : model.tables()) total += stretch_count(table, level);
  std::atomic<std::uint64_t> done{0};
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<TableCheck> checks;
  for (const TableSource& table : model.tables()) {
    const auto reader = TableReader::open(table);
    if (!reader) return reader.error();
    const std::uint64_t stretches = stretch_count(table, level);
    Checker checker(*reader, stretches);
    ENGRAM_TRY(parallel_for(stretches, threads, [&](std::size_t index) -> Status {
      ENGRAM_TRY(checker.check(index));
      const std::uint64_t now = done.fetch_add(1) + 1;
      if (progress && std::this_thread::get_id() == caller) progress(now, total);
      return {};
    }));
    auto check = checker.result();
    if (!check) return std::move(check).error();
    checks.push_back(*check);
  }
  return checks;
}

}  // namespace engram
