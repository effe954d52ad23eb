// A model in GGUF files: constants, token map, tables and gate weights, whichever dialect spells
// them.
#include "checkpoint/gguf_model.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "checkpoint/gguf.hpp"
#include "checkpoint/gguf_fields.hpp"
#include "checkpoint/gguf_files.hpp"
#include "checkpoint/tensor_checks.hpp"

namespace engram {
namespace {

class Reader {
 public:
  Reader(const GgufHeader& header, const std::string& where, const CheckpointOptions& options)
      : fields_(header, where), options_(options) {}

  Result<GgufModel> read() {
    if (fields_.architecture().empty()) {
      return make_error(Code::corrupt, "{}: general.architecture is missing", fields_.where());
    }
    ENGRAM_TRY(read_constants());
    ENGRAM_TRY(read_token_map());
    ENGRAM_TRY(read_residual());
    for (const std::int64_t layer : model_.config.layer_ids) ENGRAM_TRY(read_table(layer));
    ENGRAM_TRY(read_gates());
    return std::move(model_);
  }

 private:
  // Layer ids, multipliers and primes decide the geometry; what else the file says must agree.
  Status read_constants() {
    ModelConfig& config = model_.config;
    config.layer_ids = fields_.integers({"engram.layer_ids", "engram.layers"}, "");
    multipliers_ = fields_.integers({"engram.multipliers"}, "engram_multipliers.weight");
    primes_ =
        fields_.integers({"engram.primes", "engram.head_bucket_sizes"}, "engram_primes.weight");
    config.pad_token_id = fields_.integer({"engram.pad_id", "engram.pad_token_id"});
    token_map_ = fields_.integers({"engram.token_map"}, "engram_token_map.weight");
    ENGRAM_TRY(fields_.complete());
    const std::size_t layers = config.layer_ids.size();
    const std::size_t orders_max = static_cast<std::size_t>(kOrderLimit);
    const std::size_t orders = layers == 0 ? 0 : multipliers_.size() / layers;
    if (orders < 2 || orders > orders_max || multipliers_.size() != layers * orders ||
        primes_.empty() || primes_.size() % (layers * (orders - 1)) != 0) {
      return make_error(Code::corrupt, "{}: {} layers, {} multipliers and {} primes do not fit",
                        fields_.where(), layers, multipliers_.size(), primes_.size());
    }
    config.max_ngram_size = static_cast<std::int64_t>(orders);
    config.heads = static_cast<std::int64_t>(primes_.size() / (layers * (orders - 1)));
    // The first prime is the smallest that the geometry allowed, so it stands for it.
    config.engram_vocab_size = primes_.front();
    config.vocab_size = static_cast<std::int64_t>(token_map_.size());
    return {};
  }

  Status read_token_map() {
    ModelConfig& config = model_.config;
    std::int64_t largest = -1;
    for (const std::int64_t id : token_map_) {
      if (id < 0 || id > 0x7FFF'FFFF) {
        return make_error(Code::corrupt, "{}: token map: id {} is out of range", fields_.where(),
                          id);
      }
      largest = std::max(largest, id);
      model_.token_map.push_back(static_cast<CompressedId>(id));
    }
    config.compressed_vocab_size = largest + 1;
    const auto* size = fields_.find_as<std::int64_t>({"engram.compressed_vocab_size"});
    if (size != nullptr && *size != config.compressed_vocab_size) {
      return make_error(Code::corrupt, "{}: compressed_vocab_size {}, the token map has {}",
                        fields_.where(), *size, config.compressed_vocab_size);
    }
    const std::int64_t pad = config.pad_token_id;
    if (pad < 0 || pad >= config.vocab_size ||
        model_.token_map[static_cast<std::size_t>(pad)] != pad) {
      return make_error(Code::unsupported,
                        "{}: pad id {}: some exporters write it before compression, some after; "
                        "this one differs by that",
                        fields_.where(), pad);
    }
    const auto computed = HashSpec::compute(config.hash_config(static_cast<CompressedId>(pad)));
    if (!computed) return with_context(computed.error(), fields_.where());
    spec_.emplace(*computed);
    return check_constants();
  }

  // The file's own multipliers, primes and offsets against those its geometry gives.
  Status check_constants() const {
    std::vector<LayerHash> layers;
    const std::size_t orders = multipliers_.size() / model_.config.layer_ids.size();
    const std::size_t columns = primes_.size() / model_.config.layer_ids.size();
    for (std::size_t i = 0; i < model_.config.layer_ids.size(); ++i) {
      LayerHash layer;
      layer.layer_id = model_.config.layer_ids[i];
      layer.multipliers.assign(
          multipliers_.begin() + static_cast<std::ptrdiff_t>(i * orders),
          multipliers_.begin() + static_cast<std::ptrdiff_t>((i + 1) * orders));
      layer.primes.assign(primes_.begin() + static_cast<std::ptrdiff_t>(i * columns),
                          primes_.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
      for (const std::uint64_t prime : layer.primes) {
        layer.offsets.push_back(layer.row_count);
        layer.row_count += prime;
      }
      layers.push_back(std::move(layer));
    }
    ENGRAM_TRY(check_offsets(layers));
    const auto own = HashSpec::from_constants(spec_->config(), std::move(layers));
    if (!own) return with_context(own.error(), fields_.where());
    return spec_->expect_equal(*own, fields_.where());
  }

  Status check_offsets(const std::vector<LayerHash>& layers) const {
    const auto* offsets =
        fields_.find_as<std::vector<std::int64_t>>({"engram.offsets", "engram.head_offsets"});
    if (offsets == nullptr) return {};
    std::size_t i = 0;
    for (const LayerHash& layer : layers) {
      for (const std::uint64_t offset : layer.offsets) {
        const std::int64_t found = i < offsets->size() ? (*offsets)[i] : -1;
        if (found != static_cast<std::int64_t>(offset)) {
          return make_error(Code::corrupt, "{}: offset {}: expected {}, found {}", fields_.where(),
                            i, offset, found);
        }
        ++i;
      }
    }
    return {};
  }

  Status read_residual() {
    ModelConfig& config = model_.config;
    if (const auto* width = fields_.find_as<std::int64_t>({"embedding_length"})) {
      config.hidden_dim = *width;
    }
    if (const auto* norm = layer_norm(config.layer_ids.front(), 'q')) {
      if (norm->shape.size() != 2) return check_shape(*norm, {0, 0});
      config.copies = static_cast<std::int64_t>(norm->shape[0]);
      config.hidden_dim = static_cast<std::int64_t>(norm->shape[1]);
    }
    if (const auto* eps = fields_.find_as<double>({"attention.layer_norm_rms_epsilon"})) {
      config.norm_eps = *eps;
    } else {
      model_.missing.push_back(fields_.architecture() + ".attention.layer_norm_rms_epsilon");
    }
    return {};
  }

  const TensorExtent* layer_norm(std::int64_t layer, char which) const {
    return which == 'q' ? fields_.layer_tensor(layer, {"engram_q_norm", "engram_q"})
                        : fields_.layer_tensor(layer, {"engram_k_norm", "engram_k"});
  }

  // Columns of a row: declared, or what the width of an encoded row means.
  std::int64_t head_dim(const TensorExtent& weight) const {
    const auto* declared =
        fields_.find_as<std::int64_t>({"engram.key_length", "engram.head_dim", "engram_head_dim"});
    if (declared != nullptr) return *declared;
    const auto width = static_cast<std::int64_t>(weight.shape.back());
    if (encoding() == "e4m3_e8m0_32_row264") return width * 32 / 33;
    if (encoding() == "lloyd4_e5m3_32_r136") return width * 32 / 17;
    return width;
  }

  std::string encoding() const {
    const auto* text = fields_.find_as<std::string>({"engram.encoding"});
    return text == nullptr ? std::string() : *text;
  }

  Status read_table(std::int64_t layer) {
    const TensorExtent* weight = fields_.layer_tensor(layer, {"engram_embd"});
    if (weight == nullptr) {
      return make_error(Code::not_found, "{}: no tensor 'blk.{}.engram_embd.weight'",
                        fields_.where(), layer);
    }
    if (weight->shape.size() != 2) return check_shape(*weight, {0, 0});
    ModelConfig& config = model_.config;
    config.head_dim = head_dim(*weight);
    if (config.head_dim < 1 || config.head_dim > 1 << 16) {
      return make_error(Code::corrupt, "{}: rows of {} columns", fields_.where(), config.head_dim);
    }
    TableSource table;
    table.layer_id = layer;
    table.row_count = weight->shape[0];
    table.weight = *weight;
    ENGRAM_TRY(set_layout(*weight, table));
    const LayerHash& hash = spec_->layers()[model_.tables.size()];
    if (table.row_count != hash.row_count) {
      return make_error(Code::corrupt,
                        "{}: '{}': expected {} rows (the sum of the primes), found {}",
                        weight->path, weight->name, hash.row_count, table.row_count);
    }
    config.num_embeddings.push_back(static_cast<std::int64_t>(table.row_count));
    model_.tables.push_back(std::move(table));
    return {};
  }

  Status set_layout(const TensorExtent& weight, TableSource& table) {
    table.layout.head_dim = static_cast<std::size_t>(model_.config.head_dim);
    table.placement = RowPlacement::interleaved;
    const std::string name = encoding();
    const auto format = row_format_of_ggml(weight.dtype);
    if (format) {
      table.layout.format = *format;
      ENGRAM_TRY(check_shape(weight, {table.row_count, table.layout.head_dim}));
    } else if (weight.dtype != "I8") {
      return make_error(Code::unsupported, "{}: '{}': tables of type {} are not read", weight.path,
                        weight.name, weight.dtype);
    } else if (name == "e4m3_e8m0_32_row264" || name == "lloyd4_e5m3_32_r136") {
      table.layout.format = name[0] == 'e' ? RowFormat::fp8_e4m3_e8m0 : RowFormat::lloyd4_e5m3;
      ENGRAM_TRY(check_shape(weight, {table.row_count, table.layout.row_bytes()}));
    } else if (!name.empty()) {
      return make_error(Code::unsupported,
                        "{}: engram.encoding: expected e4m3_e8m0_32_row264 or "
                        "lloyd4_e5m3_32_r136, found '{}'",
                        weight.path, name);
    } else {
      ENGRAM_TRY(set_split_fp8(weight, table));
    }
    const auto& declared = options_.declared_format;
    if (!declared || *declared == table.layout.format) return {};
    return make_error(Code::corrupt, "{}: '{}': --codec declares {}, the file holds {}",
                      weight.path, weight.name, row_format_name(*declared),
                      row_format_name(table.layout.format));
  }

  // Dialect D: codes [rows, 256] and scales [rows, 8] of raw bytes.
  Status set_split_fp8(const TensorExtent& weight, TableSource& table) {
    const TensorExtent* scale = nullptr;
    for (const std::string_view part :
         {"engram_embd_scale", "engram_embd.scale", "engram_embd_scales", "engram_embd.scales"}) {
      if (scale == nullptr) scale = fields_.layer_tensor(table.layer_id, {part});
    }
    if (scale == nullptr) {
      return make_error(Code::unsupported,
                        "{}: '{}': I8 rows without engram.encoding or a scale tensor beside them",
                        weight.path, weight.name);
    }
    table.placement = RowPlacement::split;
    table.scale = *scale;
    ENGRAM_TRY(check_shape(weight, {table.row_count, table.layout.code_bytes()}));
    return check_shape(*scale, {table.row_count, table.layout.scale_bytes()});
  }

  Status read_gates() {
    const ModelConfig& config = model_.config;
    for (const std::int64_t layer : config.layer_ids) {
      const auto* wkv = fields_.layer_tensor(layer, {"engram_kv", "engram_wkv"});
      const auto* q = layer_norm(layer, 'q');
      const auto* k = layer_norm(layer, 'k');
      for (const auto& [tensor, name] :
           {std::pair{wkv, "engram_kv"}, {q, "engram_q_norm"}, {k, "engram_k_norm"}}) {
        if (tensor == nullptr) model_.missing.push_back(fmt::format("blk.{}.{}", layer, name));
      }
      if (wkv == nullptr || q == nullptr || k == nullptr) continue;
      const auto copies = static_cast<std::uint64_t>(config.copies);
      const auto hidden = static_cast<std::uint64_t>(config.hidden_dim);
      ENGRAM_TRY(check_shape(*q, {copies, hidden}));
      ENGRAM_TRY(check_shape(*k, {copies, hidden}));
      ENGRAM_TRY(check_shape(
          *wkv, {(copies + 1) * hidden, static_cast<std::uint64_t>(config.embedding_dim())}));
      for (const TensorExtent* tensor : {wkv, q, k}) {
        if (!row_format_of_ggml(tensor->dtype)) return wrong_dtype(*tensor, "a type this reads");
      }
      model_.gates.push_back({layer, *wkv, std::nullopt, *q, *k});
    }
    if (!model_.missing.empty()) model_.gates.clear();
    return {};
  }

  GgufFields fields_;
  const CheckpointOptions& options_;
  GgufModel model_;
  std::vector<std::int64_t> multipliers_;
  std::vector<std::int64_t> primes_;
  std::vector<std::int64_t> token_map_;
  std::optional<HashSpec> spec_;
};

}  // namespace

Result<GgufModel> read_gguf_model(const std::string& path, const CheckpointOptions& options) {
  const auto header = read_gguf_files(path);
  if (!header) return header.error();
  return Reader(*header, path, options).read();
}

}  // namespace engram
