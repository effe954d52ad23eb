// How close does one token's gate come to reading its weights once? V4.1's wkv in FP8 (157 MB) in
// huge pages, one token a call. Bound: summing the same bytes as 64-bit words, on as many threads.
// Projection, norms and the update are inside the timed window; the lookup is not.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <vector>

#include "engram/gate.hpp"

#include "base/bfloat16.hpp"
#include "base/parallel.hpp"
#include "bench/paired.hpp"
#include "os/memory.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

constexpr GateShape kShape{4, 5120, 6144};

class Bed {
 public:
  static Bed* get() {
    static const std::unique_ptr<Bed> bed = make();
    return bed.get();
  }

  void stream(int threads) {
    const std::size_t shares = static_cast<std::size_t>(threads);
    const auto bytes = wkv_bytes();
    std::vector<std::uint64_t> sums(shares);
    const Status status = parallel_for(shares, threads, [&](std::size_t share) -> Status {
      const auto* words = reinterpret_cast<const std::uint64_t*>(bytes.data());
      const std::size_t count = bytes.size() / 8;
      std::uint64_t sum[8] = {};
      for (std::size_t i = count * share / shares; i + 8 <= count * (share + 1) / shares; i += 8) {
        for (std::size_t lane = 0; lane < 8; ++lane) sum[lane] += words[i + lane];
      }
      for (const std::uint64_t part : sum) sums[share] += part;
      return {};
    });
    benchmark::DoNotOptimize(status.has_value());
    benchmark::DoNotOptimize(sums.data());
  }

  bool apply(std::size_t tokens, int threads) {
    const GateInput input{std::span(embedding_).first(tokens * kShape.embedding_dim),
                          std::span(hidden_).first(tokens * kShape.copies * kShape.hidden_dim),
                          {},
                          Rounding::reference};
    return gate_->apply(input, std::span(out_).first(input.hidden.size()), {}, workspace_, threads)
        .has_value();
  }

  std::span<const std::byte> wkv_bytes() const {
    return wkv_->bytes().first(kShape.wkv_rows() * kShape.embedding_dim);
  }
  bool is_finite() const { return std::isfinite(out_[0]) && out_[0] != hidden_[0]; }

 private:
  static std::unique_ptr<Bed> make() {
    auto bed = std::make_unique<Bed>();
    auto buffer = os::HugeBuffer::allocate(kShape.wkv_rows() * kShape.embedding_dim);
    if (!buffer) return nullptr;
    bed->wkv_ = std::make_unique<os::HugeBuffer>(*std::move(buffer));
    test::Random random(5);
    for (std::byte& code : bed->wkv_->bytes()) {
      code = static_cast<std::byte>(random.next());
      if ((code & std::byte{0x7F}) == std::byte{0x7F}) code = std::byte{0};
    }
    bed->scales_.assign(kShape.wkv_rows() / 32 * (kShape.embedding_dim / 32), std::byte{113});
    bed->norms_.resize(2 * kShape.copies * kShape.hidden_dim, std::byte{0x3F});
    for (std::size_t i = 0; i < 8 * kShape.embedding_dim; ++i) {
      bed->embedding_.push_back(bfloat16_from_float(random.symmetric()));
    }
    for (std::size_t i = 0; i < 8 * kShape.copies * kShape.hidden_dim; ++i) {
      bed->hidden_.push_back(random.symmetric());
    }
    bed->out_.resize(bed->hidden_.size());
    auto gate =
        Gate::create(kShape, {bed->wkv_bytes(), bed->scales_, bed->norms_, bed->norms_}, 1e-20, 2);
    if (!gate) return nullptr;
    bed->gate_ = std::make_unique<Gate>(*std::move(gate));
    return bed;
  }

  std::unique_ptr<os::HugeBuffer> wkv_;
  std::vector<std::byte> scales_;
  std::vector<std::byte> norms_;
  std::vector<std::uint16_t> embedding_;
  std::vector<float> hidden_;
  std::vector<float> out_;
  std::unique_ptr<Gate> gate_;
  GateWorkspace workspace_;
};

// Arguments: tokens, threads. Items are weight bytes, so the times are nanoseconds per byte.
void gate_against_stream(benchmark::State& state) {
  Bed* bed = Bed::get();
  if (bed == nullptr) return state.SkipWithError("not enough memory");
  const auto tokens = static_cast<std::size_t>(state.range(0));
  const auto threads = static_cast<int>(state.range(1));
  bool ok = true;
  bench::paired(
      state, static_cast<double>(bed->wkv_bytes().size()), [&] { bed->stream(threads); },
      [&] { ok = bed->apply(tokens, threads) && ok; });
  if (!ok || !bed->is_finite()) state.SkipWithError("wrong result");
  state.counters["stream_GB/s"] = 1 / state.counters["bound_ns"];
  state.counters["gate_GB/s"] = 1 / state.counters["subject_ns"];
}
BENCHMARK(gate_against_stream)
    ->Args({1, 1})
    ->Args({1, 2})
    ->Args({4, 1})
    ->Args({8, 2})
    ->UseManualTime()
    ->MinTime(2);

}  // namespace
}  // namespace engram
