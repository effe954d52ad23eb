// Engine: a loaded model, immutable. Session: one token timeline over it.
//
//   Result<Engine> engine = Engine::open("DeepSeek-V4.1-Flash");
//   Session session(*engine);
//   session.advance(tokens);                          // a prefill chunk, or one decoded token
//   session.apply(1, hidden, Rounding::reference);    // before block 1
//   session.apply(14, hidden, Rounding::reference);   // before block 14
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/export.h"
#include "engram/gate.hpp"
#include "engram/hash.hpp"
#include "engram/memory.hpp"
#include "engram/status.hpp"
#include "engram/token_map.hpp"
#include "engram/types.hpp"

namespace engram {

// How much of a model to open.
enum class Load : std::uint8_t {
  addresses,  // config.json and the tokenizer: enough to hash; no tensor need be there
  rows,       // and the tables
  gates,      // and the gate weights (V4.1: 157 MB per layer)
};

// The n-grams of one length in one layer.
struct LayerOrder {
  std::int64_t layer_id = 0;
  int order = 2;
};

struct EngineOptions {
  Load load = Load::gates;
  StoreOptions store;             // tier and how to load it; its threads are the gate's too
  std::uint64_t cache_bytes = 0;  // for rows of n-grams met before: memory.hpp
  NanPolicy nan_policy = NanPolicy::propagate;
  CheckpointOptions checkpoint;  // spare rows, declared table format
  std::string tokenizer_path;    // empty: tokenizer.json of the model directory
  std::string token_map_sha256;  // expected digest; empty: the config's own, or V4.1's published
  // Tier ram: only rows of these n-grams are kept in memory (store.resident by its other name).
  std::vector<LayerOrder> resident;
};

// A token map against the config it is to serve: compressed size, length, and (where `sha256` is
// not empty) digest. `where` names the tokenizer in the message. Code::corrupt.
ENGRAM_API Status check_token_map(const TokenMap& map, const ModelConfig& config,
                                  const std::string& sha256, const std::string& where);

// The digest to expect: the given one, else the config's own, else (where the vocabulary is V4.1's)
// the published one, else empty.
ENGRAM_API std::string expected_token_map_sha256(const std::string& given,
                                                 const ModelConfig& config);

// Many sequences, as a runtime with paged ones has them at hand: sequence i is
// tokens[query_start[i] .. query_start[i+1]).
struct TokenBatch {
  std::span<const TokenId> tokens;            // [length]
  std::span<const std::uint8_t> mask;         // [length] or empty: all text
  std::span<const std::int64_t> query_start;  // [sequences + 1], ascending from 0 to length
  // [sequences, orders]: the raw ids before each sequence, newest first; kMasked where a position
  // takes no part, kBeforeStart from the start of the sequence on.
  std::span<const TokenId> lookback;
};
inline constexpr TokenId kBeforeStart = -1;
inline constexpr TokenId kMasked = -2;

// -> keys [layers, length, orders]. A known id after kBeforeStart is missing history and refused
// (Code::invalid_argument): guessing it would read other rows silently. On failure keys are
// untouched.
ENGRAM_API Status hash_batch(const TokenMap& map, const Hasher& hasher, const TokenBatch& batch,
                             std::span<Key> keys);

// Opens the stores of a model, one for each table in order, where open_row_stores() is not to:
// tiers that live in other libraries (engram/mpi.hpp).
using OpenStores = std::function<Result<std::vector<std::unique_ptr<RowStore>>>(
    const Checkpoint& model, const TokenMap& map, const HashSpec& spec,
    const StoreOptions& options)>;

// Immutable once open; any number of sessions and threads may share it. Movable.
class ENGRAM_API Engine {
 public:
  // Fails closed: token map size and digest, geometry, extents, dtypes and gate weights are all
  // checked first. Where neither options nor config give a digest and the geometry is V4.1's, the
  // published digest is expected: a map of equal size can still be another map.
  static Result<Engine> open(const std::string& model_directory, const EngineOptions& options = {},
                             const OpenStores& open_stores = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  const Checkpoint& checkpoint() const;
  const TokenMap& token_map() const;
  const Hasher& hasher() const;
  // Null where only addresses were asked for.
  const Memory* memory() const;
  // Null where gates were not asked for.
  const Gate* gate(int table_index) const;
  int threads() const;
  // Why Tier::automatic chose the tier that the stores report; empty for any other.
  const std::string& tier_reason() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Counts the n-grams of a corpus, to find those worth keeping in a cache. One thread at a time; the
// engine, opened with any Load, must outlive it. Memory: 4 bytes a token, and 8 more while asked.
class ENGRAM_API Profile {
 public:
  explicit Profile(const Engine& engine) : engine_(&engine) {}
  // One document: n-grams do not reach beyond its start.
  Status add(std::span<const TokenId> document);
  std::uint64_t token_count() const { return compressed_.size(); }
  // N-grams of all tables that were met twice or more, the most frequent first, `count` at most.
  Result<std::vector<TableNgram>> hottest(std::size_t count) const;

 private:
  const Engine* engine_;
  std::vector<CompressedId> compressed_;    // all documents, one after another
  std::vector<std::int64_t> begins_ = {0};  // of documents, and the end of the last
};

// A file of n-grams for Memory::warm, good for models of the same addressing only (token map,
// multipliers and primes). Little endian: "ENGRHOT1"; the addressing's SHA-256 in hexadecimal; u64
// count; for each its key u64, table index i32 and order i32; the SHA-256 of all before.
ENGRAM_API Status write_hot_set(const std::string& path, const Engine& engine,
                                std::span<const TableNgram> ngrams);
// Code::corrupt where it is truncated, damaged, or of another addressing.
ENGRAM_API Result<std::vector<TableNgram>> read_hot_set(const std::string& path,
                                                        const Engine& engine);

// One sequence of tokens. Holds the current chunk (the tokens of the last advance or prepare) and
// the look-back before it. Copying forks the timeline. One thread at a time; the engine must
// outlive it. Any chunking, rollback or fork gives exactly what one whole prefill gives.
class ENGRAM_API Session {
 public:
  explicit Session(const Engine& engine);
  Session(const Session& other);
  Session& operator=(const Session& other);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // prepare, then commit all. tokens [length]; mask [length] or empty (1 text, 0 takes no part).
  Status advance(std::span<const TokenId> tokens, std::span<const std::uint8_t> mask = {});

  // Makes `tokens` the current chunk without moving the timeline: hashes for speculative drafts.
  // On error nothing has changed. A second prepare replaces the first.
  Status prepare(std::span<const TokenId> tokens, std::span<const std::uint8_t> mask = {});
  // Moves the timeline past the first `accepted` tokens of the prepared chunk; the rest leave no
  // trace. Code::invalid_argument without a prepared chunk or beyond its length.
  Status commit(std::size_t accepted);

  // Committed tokens so far.
  std::uint64_t position() const;
  // Tokens of the current chunk.
  std::size_t length() const;
  std::span<const CompressedId> compressed() const;                // [length]
  Result<std::span<const Key>> keys(std::int64_t layer_id) const;  // [length, orders]
  // rows [length, columns]: table-global row ids of the current chunk.
  Status rows(std::int64_t layer_id, std::span<RowId> rows) const;

  // Begins the lookups of the current chunk in every layer, the first layer's reads first, and does
  // not wait; lookup and apply then take what has come. The next prepare gives up what was not
  // taken. For drafts that may be rejected: a copy of the session, and Priority::whenever.
  Status prefetch(Priority priority = Priority::soon);

  // Decoded rows of the current chunk: [length, columns] rows.
  Status lookup(std::int64_t layer_id, const RowOutput& output);

  // hidden [length, copies, hidden_dim], updated in place for the current chunk; masked positions
  // keep their bits. gates [length, copies] or empty. The overload takes bfloat16 bit patterns and
  // always rounds as the reference does.
  Status apply(std::int64_t layer_id, std::span<float> hidden, Rounding rounding,
               std::span<float> gates = {});
  Status apply(std::int64_t layer_id, std::span<std::uint16_t> hidden, std::span<float> gates = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram
