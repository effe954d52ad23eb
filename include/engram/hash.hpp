// Compressed ids to n-gram keys and row ids: primes, multipliers, look-back.
//
//   roll(p, n) = w[0]*m[0] ^ w[1]*m[1] ^ ... ^ w[n-1]*m[n-1]
//   row(p, n, head) = roll(p, n) mod prime[n][head] + offset[n][head]
//
// where w[s] is the compressed id s positions back, or the pad id from the first dead or missing
// position on (at s = 0 too, and for all larger s: blocking is sticky).
// Reference: inference/engram.py of DeepSeek-V4.1-Flash, revision dba1be0a; docs/ALGORITHM.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engram/export.h"
#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

// What the constants are computed from: the engram_* fields of a model's config.json.
struct ENGRAM_API HashConfig {
  std::vector<std::int64_t> layer_ids;    // real layer ids (1, 14): they seed the multipliers
  int max_order = 4;                      // engram_max_ngram_size, 2 .. kOrderLimit
  int heads = 8;                          // engram_n_heads, per order
  std::int64_t first_prime_at_least = 0;  // engram_vocab_size (16,000,000): not the next field
  std::int64_t compressed_size = 0;       // engram_compressed_vocab_size (99,092)
  CompressedId pad = 0;                   // engram_pad_token_id after compression

  Status validate() const;
  int orders() const { return max_order - 1; }
  int columns() const { return orders() * heads; }
};

// The constants of one layer. Column = (order - 2) * heads + head.
struct LayerHash {
  std::int64_t layer_id = 0;
  std::vector<std::uint64_t> multipliers;  // [max_order], by look-back distance; odd
  std::vector<std::uint64_t> primes;       // [columns]
  std::vector<std::uint64_t> offsets;      // [columns], exclusive running sum of primes
  std::uint64_t row_count = 0;             // sum of primes
};

// All constants of a model. Immutable; any number of threads may use one.
class ENGRAM_API HashSpec {
 public:
  // Computes every constant. Code::invalid_argument, Code::unsupported (compressed sizes whose
  // multipliers NumPy would draw from its 32-bit generator).
  static Result<HashSpec> compute(const HashConfig& config);

  // Adopts constants that a file carries, after checking them: multipliers odd and small enough
  // that no product leaves [0, 2^63), primes prime and all distinct, offsets the running sum.
  static Result<HashSpec> from_constants(const HashConfig& config, std::vector<LayerHash> layers);

  // Code::corrupt naming the first constant that differs: a file's own against recomputed ones.
  Status expect_equal(const HashSpec& other, std::string_view where) const;

  const HashConfig& config() const { return config_; }
  std::span<const LayerHash> layers() const { return layers_; }
  // The index of a layer id in layers(); Code::not_found names the layers there are.
  Result<int> table_index(std::int64_t layer_id) const;

 private:
  HashSpec(HashConfig config, std::vector<LayerHash> layers);
  HashConfig config_;
  std::vector<LayerHash> layers_;
};

// Which rank of several owns which rows of a table. Immutable; any number of threads may use one.
class ENGRAM_API ShardMap {
 public:
  struct Owner {
    int rank = 0;
    std::uint64_t index = 0;  // among the rows of that rank, in ascending order
    friend bool operator==(const Owner&, const Owner&) = default;
  };

  // Code::invalid_argument unless 1 <= world <= 1024; any world will do, also one that divides
  // nothing. Requires a valid table index.
  static Result<ShardMap> create(const HashSpec& spec, int table_index, Partition partition,
                                 std::int64_t world);

  // Nothing for a row outside the table.
  std::optional<Owner> owner(RowId row) const;
  // Ascending, disjoint, neighbours joined; empty for a rank that owns nothing.
  std::vector<RowRange> rows(int rank) const;

 private:
  struct Piece {
    RowRange rows;
    Owner first;  // of its first row; the others follow
  };
  explicit ShardMap(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}
  std::vector<Piece> pieces_;  // ascending, without gaps
};

// The last max_order - 1 compressed ids of a sequence, newest first; kDead before its start.
// A plain value: copying it is a snapshot, assigning it back is a rollback, two copies are a fork.
class ENGRAM_API Lookback {
 public:
  Lookback() { ids_.fill(kDead); }
  // ids [up to kOrderLimit - 1], newest first: what a runtime has at hand for a paged sequence.
  explicit Lookback(std::span<const CompressedId> newest_first);

  // The state after `compressed` more positions. The receiver does not change, so committing only
  // the accepted part of a draft is: lookback = lookback.after(draft.first(accepted)).
  Lookback after(std::span<const CompressedId> compressed) const;

  CompressedId operator[](int distance) const { return ids_[distance]; }
  friend bool operator==(const Lookback&, const Lookback&) = default;

 private:
  std::array<CompressedId, kOrderLimit - 1> ids_;  // ids_[0] is one position back
};

// Hashes positions. Immutable; any number of threads may use one. Neither method allocates.
class ENGRAM_API Hasher {
 public:
  explicit Hasher(HashSpec spec);

  const HashSpec& spec() const { return spec_; }

  // compressed [length] after `lookback` -> keys [layers, length, orders].
  // Code::out_of_range for an id that is neither kDead nor in 0 .. compressed_size - 1,
  // Code::invalid_argument for lengths that disagree; then `keys` is untouched.
  Status keys(std::span<const CompressedId> compressed, const Lookback& lookback,
              std::span<Key> keys) const;

  // Many sequences in one call: sequence i is compressed[query_start[i] .. query_start[i+1]) after
  // lookbacks[i] (query_start [sequences + 1], ascending from 0 to length). The same keys as one
  // call for each; sequences never see each other.
  Status batch_keys(std::span<const CompressedId> compressed,
                    std::span<const std::int64_t> query_start, std::span<const Lookback> lookbacks,
                    std::span<Key> keys) const;

  // keys [length, orders] of one layer -> rows [length, columns], table-global row ids.
  Status rows(int table_index, std::span<const Key> keys, std::span<RowId> rows) const;

 private:
  Status check_ids(std::span<const CompressedId> compressed) const;
  void sequence_keys(std::span<const CompressedId> compressed, const Lookback& lookback,
                     std::size_t first, std::size_t length, std::span<Key> keys) const;

  HashSpec spec_;
  std::vector<double> reciprocals_;  // [layers, columns], 1 / prime for the vector kernel
};

}  // namespace engram
