// How near do conversions come to moving the bytes? Rows of 256 in memory, far larger than the
// caches, one thread. The bound is memcpy of the rows that come out (of those that go in where they
// are more), or OpenSSL's own SHA-256.
#include <benchmark/benchmark.h>
#include <openssl/evp.h>

#include <bit>
#include <cstring>
#include <vector>

#include "base/sha256.hpp"
#include "bench/paired.hpp"
#include "codec/row_encode.hpp"
#include "codec/row_values.hpp"
#include "codec/transcode.hpp"
#include "simd/fp8.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

constexpr std::size_t kRows = std::size_t{1} << 19;  // 138 MB of FP8
constexpr std::size_t kChunkRows = 4096;             // as the converter takes them
constexpr RowLayout kFp8 = {RowFormat::fp8_e4m3_e8m0, 256};

const std::vector<std::byte>& fp8_rows() {
  static const std::vector<std::byte> rows = [] {
    test::Random random(4);
    std::vector<std::byte> made(kRows * 264);
    for (std::size_t i = 0; i < made.size(); ++i) {
      auto byte = static_cast<std::uint8_t>(random.next());
      if ((byte & 0x7F) == 0x7F) byte ^= 1;
      made[i] = static_cast<std::byte>(i % 264 >= 256 ? 0x75 + byte % 6 : byte);
    }
    return made;
  }();
  return rows;
}

// A few rows again, by definition: decode each column, encode the row.
bool spot_check(const RowLayout& to, const std::vector<std::byte>& out) {
  for (const std::size_t row : {std::size_t{0}, kRows / 3, kRows - 1}) {
    std::vector<float> values(256);
    for (std::size_t i = 0; i < 256; ++i) {
      const auto* packed = reinterpret_cast<const std::uint8_t*>(fp8_rows().data() + row * 264);
      values[i] = std::bit_cast<float>(simd::fp8_value_bits(packed[i], packed[256 + i / 32]));
    }
    std::vector<std::byte> expected(to.row_bytes());
    encode_row(to, {}, values, expected.data());
    if (std::memcmp(expected.data(), out.data() + row * to.row_bytes(), to.row_bytes()) != 0) {
      return false;
    }
  }
  return true;
}

void transcode(benchmark::State& state, RowFormat format) {
  const RowLayout to{format, 256};
  const auto transcoder = Transcoder::create(kFp8, to, {});
  const std::vector<std::byte>& rows = fp8_rows();
  std::vector<std::byte> out(kRows * to.row_bytes());
  const std::vector<std::byte> moved(std::max(out.size(), rows.size()), std::byte{1});
  std::vector<std::byte> place(moved.size());
  bench::paired(
      state, static_cast<double>(kRows),
      [&] { std::memcpy(place.data(), moved.data(), moved.size()); },
      [&] {
        for (std::size_t row = 0; row < kRows; row += kChunkRows) {
          transcoder->run(rows.data() + row * 264, kChunkRows, out.data() + row * to.row_bytes());
        }
      });
  state.counters["input_GB/s"] = 264 / state.counters["subject_ns"];
  if (!spot_check(to, out)) state.SkipWithError("wrong bytes");
}
BENCHMARK_CAPTURE(transcode, fp8_to_bf16, RowFormat::bf16)->UseManualTime();
BENCHMARK_CAPTURE(transcode, fp8_to_mxfp4, RowFormat::mxfp4)->UseManualTime();
BENCHMARK_CAPTURE(transcode, fp8_to_int8, RowFormat::int8_f32)->UseManualTime();

void sha256(benchmark::State& state) {
  const std::vector<std::byte>& rows = fp8_rows();
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::string found;
  unsigned char digest[32];
  bench::paired(
      state, static_cast<double>(kRows),
      [&] { EVP_Digest(rows.data(), rows.size(), digest, nullptr, EVP_sha256(), nullptr); },
      [&] {
        auto hash = Sha256::create();
        for (std::size_t at = 0; at < rows.size(); at += kPiece) {
          hash->update(std::span(rows).subspan(at, std::min(kPiece, rows.size() - at)));
        }
        found = *hash->finish_hex();
      });
  std::string expected;
  for (const unsigned char byte : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    expected += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  if (found != expected) state.SkipWithError("wrong digest");
}
BENCHMARK(sha256)->UseManualTime();

}  // namespace
}  // namespace engram
