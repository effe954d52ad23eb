// Writes model directories: today the procedural model, for demos, tests and benches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace engram
