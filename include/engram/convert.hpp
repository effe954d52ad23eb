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

}  // namespace engram
