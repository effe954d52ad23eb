// A model directory as found in the wild: its config, and where every Engram tensor lies.
//
// Opening reads headers only (megabytes of JSON, never a table), so a 480 GB model opens in well
// under a second. Everything is checked before any payload byte is used: every dtype, shape,
// extent and file size. What Engram does not need may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engram/export.h"
#include "engram/hash.hpp"
#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

// The fields of config.json that Engram needs, whether in text_config or flat.
struct ENGRAM_API ModelConfig {
  std::vector<std::int64_t> layer_ids;       // engram_layer_ids
  std::vector<std::int64_t> num_embeddings;  // engram_num_embeddings: rows per layer; may be empty
  std::int64_t max_ngram_size = 0;           // engram_max_ngram_size
  std::int64_t heads = 0;                    // engram_n_heads
  std::int64_t head_dim = 0;                 // engram_head_dim
  std::int64_t engram_vocab_size = 0;        // engram_vocab_size: where the primes begin
  std::int64_t compressed_vocab_size = 0;    // engram_compressed_vocab_size
  std::int64_t pad_token_id = 0;             // engram_pad_token_id or engram_pad_id: a raw token id
  std::int64_t vocab_size = 0;               // vocab_size
  std::int64_t hidden_dim = 0;               // hidden_size or dim
  std::int64_t copies = 0;                   // hc_mult: hyper-connection residual copies
  double norm_eps = 0;                       // rms_norm_eps or norm_eps; never defaulted
  bool value_rotated = false;                // engram_rotation_config: the quarot contract
  std::string declared_codec;                // quantization_config.engram_*; empty where not given
  std::string token_map_sha256;              // engram_token_map_sha256; empty where not given

  // Code::corrupt names the missing or contradictory field; Code::not_found where the model has no
  // Engram (engram_layer_ids absent or empty); Code::unsupported for another model_type.
  static Result<ModelConfig> from_json(std::string_view json, std::string_view where);

  // What hash.hpp computes constants from. `compressed_pad` is pad_token_id through the token map.
  HashConfig hash_config(CompressedId compressed_pad) const;
  // orders * heads * head_dim: width of the wkv input.
  std::int64_t embedding_dim() const { return (max_ngram_size - 1) * heads * head_dim; }
};

// One tensor's bytes: [offset_bytes, offset_bytes + size_bytes) of a file.
struct ENGRAM_API TensorExtent {
  std::string name;                  // as spelled in the file
  std::string path;                  // of the file
  std::string dtype;                 // safetensors spelling, or ggml's
  std::vector<std::uint64_t> shape;  // outermost first, also where GGUF has it the other way
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t file_bytes = 0;    // size of the whole file when its header was read
  std::vector<std::string> parts;  // where the file was cut into raw parts: all of them, in order

  // The files to read: the parts, or path alone.
  std::vector<std::string> files() const;
};

// How the rows of a table lie in its tensors.
enum class RowPlacement : std::uint8_t {
  split,        // codes, scales and biases in tensors of their own
  interleaved,  // whole rows one after another: codes, scales, biases
  paged,        // whole rows in checked pages: table.hpp
};

// One layer's table.
struct ENGRAM_API TableSource {
  std::int64_t layer_id = 0;
  RowLayout layout;
  RowPlacement placement = RowPlacement::split;
  std::uint64_t row_count = 0;  // of the whole table, also where only a part is held
  TensorExtent weight;          // codes, or whole rows, or pages
  std::optional<TensorExtent>
      scale;                         // split: [rows held, head_dim / group], where there are scales
  std::optional<TensorExtent> bias;  // split: the same, where there are biases
  std::optional<std::vector<RowRange>> held;  // a shard's rows, in file order; none: every row
  std::uint64_t page_identity = 0;            // paged: what each page must carry

  // The weight, and scales and biases where they lie in tensors of their own.
  std::vector<const TensorExtent*> tensors() const;
  // Rows in the file.
  std::uint64_t held_count() const;
  std::uint64_t held_bytes() const { return held_count() * layout.row_bytes(); }
  // The position in the file of a table-global row; nothing where the file does not hold it.
  std::optional<std::uint64_t> position(RowId row) const {
    const auto index = static_cast<std::uint64_t>(row);  // a negative row is beyond every table
    if (held) return held_position(index);
    return index < row_count ? std::optional(index) : std::nullopt;
  }
  // The other way. Requires position < held_count().
  std::uint64_t global_row(std::uint64_t position) const;
  // position() where `held` is given.
  std::optional<std::uint64_t> held_position(std::uint64_t row) const;
};

// A rank's share of a model: engram-shard.json, written by `engram shard`.
struct ShardManifest {
  struct Layer {
    std::int64_t layer_id = 0;
    std::uint64_t row_count = 0;  // of the whole table
    std::vector<RowRange> held;   // ascending, by table-global id
  };
  std::int64_t rank = 0;
  std::int64_t world = 0;
  std::string by;  // partition_name()
  std::vector<Layer> layers;
};

// One layer's gate weights.
struct GateSource {
  std::int64_t layer_id = 0;
  TensorExtent wkv;                       // [(copies + 1) * hidden_dim, embedding_dim]
  std::optional<TensorExtent> wkv_scale;  // 32 x 32 tiles where wkv is FP8
  TensorExtent q_weight;                  // BF16 [copies, hidden_dim]
  TensorExtent k_weight;                  // BF16 [copies, hidden_dim]
};

struct CheckpointOptions {
  // Accept tables with more rows than the primes add up to (test fixtures do; releases never).
  // Off, because a wrong engram_vocab_size looks just like that and reads wrong rows silently.
  bool allow_spare_rows = false;
  // The format of tables whose tensors fit several and whose config declares none.
  std::optional<RowFormat> declared_format;
};

// Immutable; any number of threads may use one.
class ENGRAM_API Checkpoint {
 public:
  // `path` is a directory with config.json and, for the tensors: *.safetensors.index.json with the
  // shards it names, or model.safetensors, or any *.safetensors files; or a GGUF file (any one of a
  // split set or of raw parts), or a directory of one GGUF model. Links are followed.
  static Result<Checkpoint> open(const std::string& path, const CheckpointOptions& options = {});

  // What hashing needs, and no tensor: tables() and gates() stay empty.
  static Result<Checkpoint> open_config(const std::string& path);

  // The path it was opened by.
  const std::string& directory() const { return directory_; }
  const ModelConfig& config() const { return config_; }
  // In the order of config().layer_ids.
  const std::vector<TableSource>& tables() const { return tables_; }
  // Empty where the checkpoint has tables only; otherwise complete, in the same order.
  const std::vector<GateSource>& gates() const { return gates_; }
  // Where config().value_rotated: Q [hidden_dim, hidden_dim], of optional/quarot.safetensors.
  const std::optional<TensorExtent>& rotation() const { return rotation_; }
  // Names of the gate tensors that are not there; empty where gates() is complete.
  const std::vector<std::string>& missing() const { return missing_; }
  // directory/tokenizer.json, or empty where there is none.
  const std::string& tokenizer_path() const { return tokenizer_path_; }
  // The token map that the files carry themselves (GGUF, engram_token_map.i32), or empty.
  const std::vector<CompressedId>& token_map() const { return token_map_; }
  // Where the directory is one rank's share.
  const std::optional<ShardManifest>& shard() const { return shard_; }

 private:
  friend class CheckpointReader;
  std::string directory_;
  ModelConfig config_;
  std::vector<TableSource> tables_;
  std::vector<GateSource> gates_;
  std::optional<TensorExtent> rotation_;
  std::vector<std::string> missing_;
  std::string tokenizer_path_;
  std::vector<CompressedId> token_map_;
  std::optional<ShardManifest> shard_;
};

}  // namespace engram
