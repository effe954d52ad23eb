// Writes model directories: tables in another format, rank shards, rotations, manifests; and the
// procedural model of demos, tests and benches. Compares and checks what is there.
//
// Destinations are made beside their name and renamed into place: they are seen complete or not at
// all, whatever kills the process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/export.h"
#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

// A model in the official layout whose every byte follows from `seed`.
struct ModelRecipe {
  std::string tokenizer_path;             // copied into the model; decides the vocabulary
  std::int64_t engram_vocab_size = 1000;  // where the primes begin; V4.1: 16,000,000
  std::vector<std::int64_t> layer_ids = {1, 14};
  std::int64_t hidden_dim = 256;  // V4.1: 5,120
  std::int64_t copies = 4;
  std::uint64_t seed = 0;
  bool bf16 = false;  // tables and wkv in BF16: the same values, no scales
  // Tables as holes, with real rows only for the n-grams of `ids` hashed as one sequence: a
  // full-size model (203 GB of address space) in a few megabytes of disk.
  bool sparse = false;
  std::vector<TokenId> ids;
};

// The stored bytes of one procedural FP8 row: 256 codes, then 8 scale bytes. Source of the rule:
// `engram make-model --help`. splitmix64 whose state starts at mix(seed + layer_id * 2^32 + row);
// the first 32 outputs, little endian, are the codes, with NaN codes c replaced by c ^ 1; byte b of
// the 33rd gives scale byte 0x76 + b mod 3.
ENGRAM_API std::vector<std::byte> procedural_row(std::uint64_t seed, std::int64_t layer_id,
                                                 RowId row);

// Makes `directory`, which must not exist or be empty. Everything is written beside it first and
// renamed into place, so a killed process leaves no half model under that name.
ENGRAM_API Status make_model(const std::string& directory, const ModelRecipe& recipe,
                             const Progress& progress = {});

struct ConvertOptions {
  // "fp8", "row264", "mxfp8", "mxfp4", "bf16", "int8", "int4-e4m3", "lloyd4", "q8_0", "mxfp4-gguf",
  // "f16", "f32", "paged" (rows as they are), or "paged:" and a codec name.
  std::string to = "paged";
  std::vector<std::int64_t> layers;                       // empty: every layer
  std::uint64_t rows_per_chunk = std::uint64_t{1} << 20;  // between two points to resume from
  int threads = 1;
  Mxfp4Rule mxfp4;
  bool tables_only = false;  // leave gate weights out
  bool resume = false;       // go on with what an interrupted conversion left
  Progress progress;         // bytes written
};

// Converts the tables of a model, with its gate weights, config, tokenizer, index and a manifest of
// every file's SHA-256. Bytes are moved where the formats allow it; values are kept exactly where
// the target can hold them, and quantised otherwise (codec names say how; docs/FORMATS.md). Rows
// that hold NaN or infinity are refused, as are gate weights that would lose anything.
// Memory stays under 512 MiB. Code::unavailable where another job writes the same destination;
// Code::invalid_argument where it exists, or a journal to resume belongs to another conversion;
// Code::io, before anything is written, where its file system is too full.
ENGRAM_API Status convert(const Checkpoint& source, const std::string& destination,
                          const ConvertOptions& options);

struct ShardOptions {
  std::int64_t world = 1;  // ranks
  Partition by = Partition::strided;
  std::uint64_t rows_per_chunk = std::uint64_t{1} << 20;
  int threads = 1;
  bool tables_only = false;
  bool resume = false;
  Progress progress;
};

// Cuts the tables over ranks, rows as they are: destination/rank-00000 and so on, each a model
// directory of its own with engram-shard.json, which tells a reader the table-global rows it holds:
// ids stay global everywhere, and a row of another rank is Code::out_of_range. Gate weights are
// copied to every rank. Code::unsupported for formats that safetensors cannot split.
ENGRAM_API Status shard(const Checkpoint& source, const std::string& destination,
                        const ShardOptions& options);

// Folds a rotation of the residual stream into the value rows of wkv (Q^T V, products in binary32,
// stored as bfloat16) and declares it in config.json; tables are copied. The rotation file goes
// along as optional/quarot.safetensors. Code::invalid_argument where the model is rotated already.
ENGRAM_API Status rotate(const Checkpoint& source, const std::string& destination,
                         const std::string& rotation_path, int threads,
                         const Progress& progress = {});

// How far decoded values of two tables lie apart; A is the reference.
struct Distance {
  std::uint64_t rows = 0;
  double relative_l2 = 0;  // |A - B| / |A|
  double cosine = 1;       // mean over rows
  double worst_cosine = 1;
  double max_abs = 0;
  double exact_share = 1;  // of values that are equal
};

struct TableComparison {
  std::int64_t layer_id = 0;
  Distance all;
  std::vector<Distance> columns;        // by order, then head
  std::vector<std::uint64_t> scales_a;  // [256] counts of E8M0 bytes; empty for other scales
  std::vector<std::uint64_t> scales_b;
  std::string finding;  // what is wrong, where the numbers say it: "pairs swapped", ...
};

struct CompareOptions {
  std::uint64_t rows = 24'000;  // per table, spread evenly over its columns; 0: every row
  int threads = 1;
  Progress progress;  // rows
};

// Compares the tables of two models of equal geometry (Code::invalid_argument otherwise).
ENGRAM_API Result<std::vector<TableComparison>> compare(const Checkpoint& a, const Checkpoint& b,
                                                        const CompareOptions& options);

// How much of a table check_tables reads.
enum class CheckLevel : std::uint8_t { headers, sample, full };

struct TableCheck {
  std::int64_t layer_id = 0;
  std::uint64_t rows = 0;  // read
  int scale_min = -1;      // E8M0 bytes; -1 for other scales
  int scale_max = -1;
};

// Reads rows of every table: page checksums, NaN and infinite values, scale range. Code::corrupt
// names the first bad row or page.
ENGRAM_API Result<std::vector<TableCheck>> check_tables(const Checkpoint& model, CheckLevel level,
                                                        int threads, const Progress& progress = {});

// Writes engram-manifest.json: the SHA-256 of every file of a directory, its config, the tool.
ENGRAM_API Status write_manifest(const std::string& directory, int threads,
                                 const Progress& progress = {});

struct VerifyReport {
  std::string
      against;  // engram-manifest.json, aurora_export_manifest.json, SHA256SUMS or blob names
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// Reads every file again and compares. Code::corrupt names the first that differs, is missing, or
// (with a manifest) was not listed. A pass is about bytes, not about accuracy.
ENGRAM_API Result<VerifyReport> verify(const std::string& directory, int threads,
                                       const Progress& progress = {});

// Bytes and weights of a checkpoint, tables counted apart.
struct Account {
  struct Part {
    std::uint64_t bytes = 0;
    std::uint64_t weights = 0;
    double bits_per_weight() const;
  };
  Part tables;
  Part rest;
};
ENGRAM_API Result<Account> account(const Checkpoint& model);

}  // namespace engram
