// What `engram bench` measures.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engram/engine.hpp"

#include "cli/bench_report.hpp"
#include "cli/bench_workload.hpp"
#include "cli/engine_options.hpp"

namespace engram::cli {

struct BenchOptions {
  ModelOptions model;
  std::size_t tokens = 0;  // of one round; 0: what suits the bench
  int rounds = 15;
  bool cold = false;
  bool check = true;
};

// The engine under test, opened again for every cold round, and one of tier mmap that has the right
// answers.
class Bench {
 public:
  static Result<Bench> open(const BenchOptions& options, Load load);

  const BenchOptions& options() const { return *options_; }
  const Engine& engine() const { return *engine_; }
  std::size_t tokens(std::size_t otherwise) const {
    return options_->tokens == 0 ? otherwise : options_->tokens;
  }
  BenchResult result(std::string bench, const Workload& workload) const;

  // For a cold round: files out of the page cache, caches empty.
  Status reopen_cold();
  // Fails where the rows that the session looks up are not those of the files.
  Status check_rows(Session& session, OutputFormat format) const;
  // The bound of reads of `rows`, which the tier under test has just made: seconds for as many
  // reads of the device, or, where it made none, for touching the rows in memory.
  Result<double> read_bound(int table, std::span<const RowId> rows, std::uint64_t reads,
                            std::string& name);

 private:
  explicit Bench(const BenchOptions& options) : options_(&options) {}
  const BenchOptions* options_;
  std::optional<Engine> engine_;
  std::optional<Engine> reference_;
  Load load_ = Load::rows;
  FetchScratch scratch_;
  std::vector<std::byte> arena_;
  std::uint64_t seed_ = 0;
  std::uint64_t sink_ = 0;
};

using BenchKind = Result<BenchResult> (*)(Bench& bench, Workload& workload);

Result<BenchResult> bench_hash(Bench& bench, Workload& workload);
Result<BenchResult> bench_decode(Bench& bench, Workload& workload);
Result<BenchResult> bench_gather(Bench& bench, Workload& workload);
Result<BenchResult> bench_gate(Bench& bench, Workload& workload);
Result<BenchResult> bench_store(Bench& bench, Workload& workload);
Result<BenchResult> bench_prefill(Bench& bench, Workload& workload);
Result<BenchResult> bench_decode_step(Bench& bench, Workload& workload);

}  // namespace engram::cli
