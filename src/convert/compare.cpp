// Distances between the decoded values of two tables, and what their pattern says.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "engram/convert.hpp"
#include "engram/hash.hpp"

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "checkpoint/table_reader.hpp"
#include "codec/row_codec.hpp"
#include "convert/scale_bytes.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kRowsAtOnce = 4096;
constexpr std::size_t kGroup = 32;

// Sums over rows; the sums of two sets of rows add up to those of both.
struct Sums {
  std::uint64_t rows = 0;
  std::uint64_t values = 0;
  std::uint64_t equal = 0;
  double aa = 0;
  double bb = 0;
  double ab = 0;
  double swapped = 0;     // a[i] * b[i ^ 1]
  double difference = 0;  // (a - b)^2
  double max_abs = 0;
  double cosines = 0;
  double worst_cosine = 1;
  double group_cosines = 0;  // of groups of 32
  std::uint64_t groups = 0;
  double log_gains = 0;  // log2 of |a| / |b| by group
  double squared_log_gains = 0;

  void add(const Sums& other) {
    rows += other.rows;
    values += other.values;
    equal += other.equal;
    aa += other.aa;
    bb += other.bb;
    ab += other.ab;
    swapped += other.swapped;
    difference += other.difference;
    max_abs = std::max(max_abs, other.max_abs);
    cosines += other.cosines;
    worst_cosine = std::min(worst_cosine, other.worst_cosine);
    group_cosines += other.group_cosines;
    groups += other.groups;
    log_gains += other.log_gains;
    squared_log_gains += other.squared_log_gains;
  }
};

// 1 for two zero vectors, which agree; 0 where only one is zero.
double cosine(double ab, double aa, double bb) {
  if (aa == 0 && bb == 0) return 1;
  return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
}

void add_group(const float* a, const float* b, std::size_t count, Sums& row) {
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (std::size_t i = 0; i < count; ++i) {
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
    ab += static_cast<double>(a[i]) * b[i];
    row.swapped += static_cast<double>(a[i]) * b[i ^ 1];
    const double difference = static_cast<double>(a[i]) - b[i];
    row.difference += difference * difference;
    row.max_abs = std::max(row.max_abs, std::fabs(difference));
    row.equal += a[i] == b[i] ? 1 : 0;
  }
  row.aa += aa;
  row.bb += bb;
  row.ab += ab;
  if (aa == 0 || bb == 0) return;
  ++row.groups;
  row.group_cosines += cosine(ab, aa, bb);
  const double gain = 0.5 * std::log2(aa / bb);
  row.log_gains += gain;
  row.squared_log_gains += gain * gain;
}

Sums row_sums(std::span<const float> a, std::span<const float> b) {
  Sums row;
  row.rows = 1;
  row.values = a.size();
  for (std::size_t i = 0; i < a.size(); i += kGroup) {
    add_group(a.data() + i, b.data() + i, std::min(kGroup, a.size() - i), row);
  }
  row.cosines = row.worst_cosine = cosine(row.ab, row.aa, row.bb);
  return row;
}

Distance distance_of(const Sums& sums) {
  Distance distance;
  distance.rows = sums.rows;
  if (sums.rows == 0) return distance;
  const double base = sums.aa > 0 ? sums.aa : 1;
  distance.relative_l2 = std::sqrt(sums.difference / base);
  distance.cosine = sums.cosines / static_cast<double>(sums.rows);
  distance.worst_cosine = sums.worst_cosine;
  distance.max_abs = sums.max_abs;
  distance.exact_share = static_cast<double>(sums.equal) / static_cast<double>(sums.values);
  return distance;
}

// Names a fault whose signature the sums show.
std::string finding_of(const Sums& sums) {
  if (sums.rows == 0 || sums.difference == 0) return {};
  const double whole = cosine(sums.ab, sums.aa, sums.bb);
  const double swapped = cosine(sums.swapped, sums.aa, sums.bb);
  if (whole < 0.5 && swapped > 0.9) {
    return fmt::format(
        "pairs swapped: cosine {:.4f}, {:.4f} after swapping neighbours: the nibble "
        "order is the other one",
        whole, swapped);
  }
  const auto groups = static_cast<double>(std::max<std::uint64_t>(1, sums.groups));
  const double group_cosine = sums.group_cosines / groups;
  const double gain = sums.log_gains / groups;
  const double spread = std::sqrt(std::max(0.0, sums.squared_log_gains / groups - gain * gain));
  if (group_cosine > 0.98 && spread < 0.05 && std::fabs(gain) > 0.4) {
    return fmt::format("scaled: every value of B is A's divided by {:.4g}", std::exp2(gain));
  }
  if (group_cosine > 0.98 && spread > 0.25) {
    return "scales shifted: groups agree up to a factor of their own, as if scales belonged to "
           "other groups or rows";
  }
  if (whole < 0.1) return "unrelated: these are not the same table";
  return {};
}

// One table of each model and the rows to look at.
class Comparison {
 public:
  Comparison(const TableReader& a, const TableReader& b, const LayerHash& hash,
             const CompareOptions& options)
      : a_(a), b_(b), hash_(hash), options_(options), columns_(hash.primes.size()) {}

  Result<TableComparison> run(std::uint64_t done_before, std::uint64_t total) {
    std::atomic<std::uint64_t> done{done_before};
    const std::thread::id caller = std::this_thread::get_id();
    ENGRAM_TRY(parallel_for(columns_.size(), options_.threads, [&](std::size_t column) -> Status {
      ENGRAM_TRY(compare_column(column));
      const std::uint64_t now = done.fetch_add(columns_[column].rows) + columns_[column].rows;
      if (options_.progress && std::this_thread::get_id() == caller) options_.progress(now, total);
      return {};
    }));
    TableComparison result;
    result.layer_id = hash_.layer_id;
    Sums all;
    for (const Sums& sums : columns_) {
      all.add(sums);
      result.columns.push_back(distance_of(sums));
    }
    result.all = distance_of(all);
    result.finding = finding_of(all);
    result.scales_a = std::move(scales_a_);
    result.scales_b = std::move(scales_b_);
    return result;
  }

 private:
  Status compare_column(std::size_t column) {
    const std::uint64_t begin = hash_.offsets[column];
    const std::uint64_t rows = hash_.primes[column];
    const std::uint64_t per_column = options_.rows / columns_.size() + 1;
    if (options_.rows == 0 || per_column >= rows) {
      for (std::uint64_t row = 0; row < rows; row += kRowsAtOnce) {
        ENGRAM_TRY(compare_rows(begin + row, std::min(kRowsAtOnce, rows - row), columns_[column]));
      }
      return {};
    }
    for (std::uint64_t i = 0; i < per_column; ++i) {
      ENGRAM_TRY(compare_rows(begin + i * (rows / per_column), 1, columns_[column]));
    }
    return {};
  }

  Status compare_rows(std::uint64_t first, std::uint64_t count, Sums& sums) {
    const std::size_t dim = a_.source().layout.head_dim;
    std::vector<float> values[2];
    std::vector<std::byte> packed[2];
    const std::array readers = {&a_, &b_};
    for (std::size_t side = 0; side < 2; ++side) {
      const RowLayout& layout = readers[side]->source().layout;
      packed[side].resize(count * layout.row_bytes());
      values[side].resize(count * dim);
      ENGRAM_TRY(readers[side]->read(first, count, packed[side]));
      std::vector<std::byte*> places(count);
      for (std::uint64_t i = 0; i < count; ++i) {
        places[i] = reinterpret_cast<std::byte*>(values[side].data() + i * dim);
      }
      decode_rows(layout, OutputFormat::f32, packed[side].data(), places);
    }
    for (std::uint64_t row = 0; row < count; ++row) {
      sums.add(row_sums(std::span(values[0]).subspan(row * dim, dim),
                        std::span(values[1]).subspan(row * dim, dim)));
    }
    const std::lock_guard lock(scales_mutex_);
    count_scale_bytes(a_.source().layout, packed[0], scales_a_);
    count_scale_bytes(b_.source().layout, packed[1], scales_b_);
    return {};
  }

  const TableReader& a_;
  const TableReader& b_;
  const LayerHash& hash_;
  const CompareOptions& options_;
  std::vector<Sums> columns_;
  std::mutex scales_mutex_;
  std::vector<std::uint64_t> scales_a_;
  std::vector<std::uint64_t> scales_b_;
};

// Rows are compared by id, so both must have the same primes; and all of them.
// Returns those primes.
Result<HashSpec> check_comparable(const Checkpoint& a, const Checkpoint& b) {
  auto spec_a = HashSpec::compute(a.config().hash_config(0));
  if (!spec_a) return spec_a.error();
  const auto spec_b = HashSpec::compute(b.config().hash_config(0));
  if (!spec_b) return spec_b.error();
  const Status same = spec_a->expect_equal(*spec_b, b.directory());
  if (!same || a.config().head_dim != b.config().head_dim) {
    return make_error(Code::invalid_argument, "{} and {} are tables of other geometry{}{}",
                      a.directory(), b.directory(), same ? "" : ": ",
                      same ? "" : same.error().message);
  }
  for (const Checkpoint* model : {&a, &b}) {
    if (!model->shard()) continue;
    return make_error(Code::invalid_argument, "{}: a shard; compare whole tables",
                      model->directory());
  }
  return spec_a;
}

}  // namespace

Result<std::vector<TableComparison>> compare(const Checkpoint& a, const Checkpoint& b,
                                             const CompareOptions& options) {
  const auto spec = check_comparable(a, b);
  if (!spec) return spec.error();
  std::vector<TableComparison> results;
  std::uint64_t total = 0;
  for (const LayerHash& layer : spec->layers()) {
    total += options.rows == 0 ? layer.row_count : std::min(options.rows, layer.row_count);
  }
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < a.tables().size(); ++i) {
    const auto reader_a = TableReader::open(a.tables()[i]);
    if (!reader_a) return reader_a.error();
    const auto reader_b = TableReader::open(b.tables()[i]);
    if (!reader_b) return reader_b.error();
    auto result = Comparison(*reader_a, *reader_b, spec->layers()[i], options).run(done, total);
    if (!result) return std::move(result).error();
    done += result->all.rows;
    results.push_back(*std::move(result));
  }
  return results;
}

}  // namespace engram
