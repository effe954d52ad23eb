// How much faster is the row decoder than a scalar table decoder? FP8 to bfloat16, rows of 256, all
// in cache; nothing else is inside the timed window. The "bound" is the table decoder.
#include <benchmark/benchmark.h>

#include <array>
#include <bit>
#include <vector>

#include "base/bfloat16.hpp"
#include "bench/paired.hpp"
#include "simd/fp8.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

constexpr std::size_t kRows = 96;  // 25 KB in, 49 KB out: level-two cache
constexpr std::size_t kDim = 256;

// A decoder as runtimes write it: two tables of floats, a product, a rounding.
class TableDecoder {
 public:
  TableDecoder() {
    for (int i = 0; i < 256; ++i) {
      codes_[static_cast<std::size_t>(i)] =
          std::bit_cast<float>(simd::fp8_value_bits(static_cast<std::uint8_t>(i), 127));
      scales_[static_cast<std::size_t>(i)] =
          std::bit_cast<float>(simd::fp8_value_bits(0x38, static_cast<std::uint8_t>(i)));
    }
  }
  void decode(const std::uint8_t* packed, std::uint16_t* out) const {
    for (std::size_t i = 0; i < kDim; ++i) {
      out[i] = bfloat16_from_float(codes_[packed[i]] * scales_[packed[kDim + i / 32]]);
    }
  }

 private:
  std::array<float, 256> codes_{};
  std::array<float, 256> scales_{};
};

void fp8_to_bfloat16(benchmark::State& state) {
  test::Random random(2);
  std::vector<std::uint8_t> packed(kRows * 264);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    packed[i] = static_cast<std::uint8_t>(random.next());
    if ((packed[i] & 0x7F) == 0x7F) packed[i] ^= 1;
    if (i % 264 >= kDim) packed[i] = static_cast<std::uint8_t>(0x76 + packed[i] % 3);
  }
  const TableDecoder decoder;
  std::vector<std::uint16_t> expected(kRows * kDim);
  std::vector<std::uint16_t> found(kRows * kDim);
  std::vector<std::uint16_t*> outputs;
  for (std::size_t row = 0; row < kRows; ++row) outputs.push_back(found.data() + row * kDim);
  bench::paired(
      state, kRows,
      [&] {
        for (std::size_t row = 0; row < kRows; ++row) {
          decoder.decode(packed.data() + row * 264, expected.data() + row * kDim);
        }
      },
      [&] {
        simd::decode_fp8({packed.data(), kDim}, std::span<std::uint16_t* const>(outputs));
      });
  if (found != expected) state.SkipWithError("wrong values");
}
BENCHMARK(fp8_to_bfloat16)->UseManualTime();

}  // namespace
}  // namespace engram
