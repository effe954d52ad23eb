// The numbers and enumerations that every module shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "engram/export.h"
#include "engram/status.hpp"

namespace engram {

// A token id as the tokenizer gives it. Signed, so that a padding id of -1 is seen and refused.
using TokenId = std::int32_t;

// A compressed token id (0 .. compressed_size - 1), or kDead.
using CompressedId = std::int32_t;

// A position that takes no part in any n-gram: masked out (an image), or before the start.
// Reference: deepseek-ai/DeepSeek-V4.1-Flash inference/engram.py, token mask.
inline constexpr CompressedId kDead = -1;

// The rolling XOR of one n-gram before any modulo, in [0, 2^63). With its layer and order it
// decides one row for every head.
using Key = std::uint64_t;

// A table-global row index (head offset included). Signed for the same reason as TokenId.
using RowId = std::int64_t;

// The longest n-gram any layout may ask for. V4.1 uses 4; the limit bounds fixed-size state.
inline constexpr int kOrderLimit = 8;

// How one row of a table is stored. A format is declared, never guessed from a shape: five 4-bit
// formats share one. Values are formulas of an element q and its group's scale s; groups are runs
// of RowLayout::group columns, 32 unless the format is affine.
enum class RowFormat : std::uint8_t {
  fp8_e4m3_e8m0,  // q E4M3FN, s E8M0: q * s. Official, Quark; MLX mxfp8 is the same bytes
  bf16,           // bfloat16
  f16,            // IEEE binary16
  f32,            // IEEE binary32
  int8_f32,       // q int8, s binary32: q * s. Ascend
  mxfp4,          // q E2M1, even column in the low nibble, s E8M0: q * s
  int4_e4m3,      // q int4 (two's complement), low nibble first, s E4M3FN: q * s / 8
  int4_e8m0,      // q int4 (two's complement), low nibble first, s E8M0: q * s
  int4_f16,       // q - 8 (offset binary), low nibble first, s binary16: (q - 8) * s
  affine,         // q of `bits` bits, least significant first, s and b: q * s + b. MLX
  int3_e4m3,      // q int3 (two's complement), least significant first, s E4M3FN: q * s / 8
  lloyd4_e5m3,    // q a sign and 3 bits of codebook, low nibble first, s E5M3: c[q] * s. ds4 fork
  // GGUF blocks carry their scales inside; formulas in codec/block_values.hpp.
  q8_0,         // blocks of 32 columns, 34 bytes
  mxfp4_block,  // 32 columns, 17 bytes: mxfp4 in GGUF's order
  q6_k,         // superblocks of 256 columns: 210 bytes
  q5_k,         // 176 bytes
  q4_k,         // 144 bytes
  q3_k,         // 110 bytes
  q2_k,         // 84 bytes
};

// Bytes of a stored row's parts.
struct RowSizes {
  std::size_t codes = 0;
  std::size_t scales = 0;
  std::size_t biases = 0;
  std::size_t total() const { return codes + scales + biases; }
};

// The sizes of one stored row. Its codes, scales and biases may lie in several tensors.
struct ENGRAM_API RowLayout {
  RowFormat format = RowFormat::fp8_e4m3_e8m0;
  std::size_t head_dim = 256;
  std::size_t group = 32;   // columns that share one scale
  std::size_t bits = 8;     // affine: bits of one code, 2, 3, 4, 6 or 8
  bool wide_scales = true;  // affine: scales and biases are binary32, otherwise bfloat16

  // Columns that only exist together: head_dim must be a multiple.
  std::size_t block_columns() const;
  std::size_t code_bytes() const;
  std::size_t scale_bytes() const;  // 0 where the format has no scales
  std::size_t bias_bytes() const;   // 0 where the format has no biases
  // All three; for loops, which should ask once.
  RowSizes sizes() const { return {code_bytes(), scale_bytes(), bias_bytes()}; }
  // Codes, then scales, then biases: the raw output form.
  std::size_t row_bytes() const { return code_bytes() + scale_bytes() + bias_bytes(); }
  friend bool operator==(const RowLayout&, const RowLayout&) = default;
};

// The names of formats in config files, metadata and --codec: "fp8", "mxfp4", "q8_0", ... The
// second knows aliases too ("fp4", "mxfp8"); Code::unsupported lists the names for any other.
ENGRAM_API std::string_view row_format_name(RowFormat format);
ENGRAM_API Result<RowFormat> row_format_from_name(std::string_view name);

// Some rows of a table, by table-global id: [begin, end).
struct RowRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t count() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

// How a table is cut over `world` ranks.
enum class Partition : std::uint8_t {
  rows,         // blocks of ceil(rows / world), as the reference's row-parallel embedding
  heads,        // whole columns, ceil(columns / world) at a time, as vLLM
  strided,      // columns rank, rank + world, ...: every rank has every order, so reads are even
  layer_order,  // all heads of one order of one layer, dealt round: six pieces in V4.1
};
// "rows", "heads", "strided", "layer-order".
ENGRAM_API std::string_view partition_name(Partition partition);

// How rows are quantised to MXFP4. Exponents, with e = floor(log2 amax) of a group of 32:
enum class Mxfp4Exponent : std::uint8_t {
  floor,   // e - 2: OCP MX 1.0; values above 6 saturate
  ceil,    // ceil(log2(amax / 6)): nothing saturates
  search,  // of e - 2 and e - 1 the one of smaller squared error; the smaller where they are equal
};
enum class Ties : std::uint8_t { even, toward_zero };
struct Mxfp4Rule {
  Mxfp4Exponent exponent = Mxfp4Exponent::search;
  Ties ties = Ties::even;
  // Zeros become nibble 8, and a group of zeros has scale byte 0 instead of 127.
  bool negative_zero = false;
};
// Byte parity with NVIDIA ModelOpt's MXFP4.
inline constexpr Mxfp4Rule kModelOptMxfp4 = {Mxfp4Exponent::ceil, Ties::toward_zero, true};

// What a lookup writes for each row.
enum class OutputFormat : std::uint8_t {
  bf16,  // head_dim bfloat16 (u16 bit patterns)
  f32,   // head_dim IEEE binary32
  f16,   // head_dim IEEE binary16 (u16 bit patterns); what is too large for it becomes infinite
  raw,   // the stored bytes, packed: codes then scales (264 bytes for FP8 rows of 256)
};

// What to do with a row that decodes to NaN or infinity.
enum class NanPolicy : std::uint8_t {
  propagate,  // decode it as the reference does
  reject,     // fail the lookup with Code::corrupt, naming the row
};

// Where the rows live.
enum class Tier : std::uint8_t {
  mmap,       // the files, mapped; the page cache decides what stays
  ram,        // a private copy in memory, in huge pages where the system gives them
  direct,     // the files, read past the page cache a batch at a time: no table in memory
  shared,     // memory of this host that `engram load` has filled: one copy for all processes
  automatic,  // ram, direct or mmap, as choose_tier() finds
  sharded,    // over the ranks of a communicator; opened by sharded_stores() of engram/mpi.hpp
};

// "mmap", "ram", "direct", "shared", "auto", "sharded".
ENGRAM_API std::string_view tier_name(Tier tier);

// Pages of tables in memory.
enum class HugePages : std::uint8_t {
  transparent,  // 2 MiB where the kernel has them to give, 4 KiB where not
  reserved_2m,  // of the pool that vm.nr_hugepages reserves
  reserved_1g,
};

// Where tables lie on a machine whose memory belongs to several processors.
enum class NumaPolicy : std::uint8_t {
  local,       // wherever the loading threads run
  interleave,  // pages on all nodes in turn
  copies,      // the whole table once on each node; threads read their own
};

// How tier direct reads.
enum class ReadMethod : std::uint8_t {
  automatic,  // uring, or readahead where a container forbids rings
  uring,      // io_uring: the whole batch at once
  readahead,  // advice for the whole batch, then reads through the page cache
  threads,    // a pool of reading threads
};

// How soon rows are needed.
enum class Priority : std::uint8_t {
  now,       // the caller is about to wait for them
  soon,      // in this step: reading begins at once
  whenever,  // perhaps never (drafts): a few reads at a time, at the device's lowest priority
};

// Called now and then during long work, always from the thread that asked for it.
// `done` and `total` are bytes; total never changes within one piece of work.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace engram
