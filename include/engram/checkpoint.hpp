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
struct TensorExtent {
  std::string name;   // as spelled in the file
  std::string path;   // of the file
  std::string dtype;  // safetensors spelling
  std::vector<std::uint64_t> shape;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t file_bytes = 0;  // size of the whole file when its header was read
};

// One layer's table.
struct TableSource {
  std::int64_t layer_id = 0;
  RowLayout layout;
  std::uint64_t row_count = 0;
  TensorExtent weight;                // [row_count, code_bytes], however its dtype divides them
  std::optional<TensorExtent> scale;  // [row_count, head_dim / group] where the format has scales
  std::optional<TensorExtent> bias;   // the same where it has biases
};

// One layer's gate weights.
struct GateSource {
  std::int64_t layer_id = 0;
  TensorExtent wkv;                       // [(copies + 1) * hidden_dim, embedding_dim]
  std::optional<TensorExtent> wkv_scale;  // 32 x 32 tiles where wkv is FP8
  TensorExtent q_weight;                  // BF16 [copies, hidden_dim]
  TensorExtent k_weight;                  // BF16 [copies, hidden_dim]
};

// The codec names of config files and --codec: "fp8", "mxfp4", ... The second knows aliases too
// ("fp4", "mxfp8"); Code::unsupported for other names.
ENGRAM_API std::string_view row_format_name(RowFormat format);
ENGRAM_API Result<RowFormat> row_format_from_name(std::string_view name);

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
  // `directory` holds config.json and, for the tensors: model.safetensors.index.json with the
  // shards it names, or model.safetensors, or any *.safetensors files. Links are followed.
  static Result<Checkpoint> open(const std::string& directory,
                                 const CheckpointOptions& options = {});

  // config.json alone, and whether there is a tokenizer: tables() and gates() stay empty.
  static Result<Checkpoint> open_config(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const ModelConfig& config() const { return config_; }
  // In the order of config().layer_ids.
  const std::vector<TableSource>& tables() const { return tables_; }
  // Empty where the checkpoint has tables only; otherwise complete, in the same order.
  const std::vector<GateSource>& gates() const { return gates_; }
  // Names of the gate tensors that are not there; empty where gates() is complete.
  const std::vector<std::string>& missing() const { return missing_; }
  // directory/tokenizer.json, or empty where there is none.
  const std::string& tokenizer_path() const { return tokenizer_path_; }

 private:
  friend class CheckpointReader;
  std::string directory_;
  ModelConfig config_;
  std::vector<TableSource> tables_;
  std::vector<GateSource> gates_;
  std::vector<std::string> missing_;
  std::string tokenizer_path_;
};

}  // namespace engram
