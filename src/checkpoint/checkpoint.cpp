// Opens a model directory: resolves every Engram tensor and checks it against the config.
#include "engram/checkpoint.hpp"

#include <algorithm>
#include <array>

#include "engram/table.hpp"

#include "base/error.hpp"
#include "checkpoint/gguf_files.hpp"
#include "checkpoint/gguf_model.hpp"
#include "checkpoint/rotation_file.hpp"
#include "checkpoint/shard_manifest.hpp"
#include "checkpoint/table_layout.hpp"
#include "checkpoint/tensor_catalog.hpp"
#include "checkpoint/tensor_checks.hpp"
#include "checkpoint/token_map_file.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kConfigBytesMax = std::uint64_t{64} << 20;
constexpr std::int64_t kScaleGroup = 32;  // both sides of a wkv tile

// Official; wrappers of multimodal models; MLX.
constexpr std::array<std::string_view, 4> kPrefixes = {"", "model.", "language_model.",
                                                       "model.language_model."};
// Official, Quark, vLLM, MLX.
constexpr std::array<std::string_view, 4> kScaleNames = {"scale", "weight_scale",
                                                         "weight_scale_inv", "scales"};
constexpr std::array<std::string_view, 1> kBiasNames = {"biases"};  // MLX

}  // namespace

// Builds a Checkpoint step by step.
class CheckpointReader {
 public:
  Status read_config(const std::string& directory) {
    if (!os::is_directory(directory)) {
      return make_error(Code::not_found, "{}: expected a model directory", directory);
    }
    checkpoint_.directory_ = directory;
    const std::string path = directory + "/config.json";
    const auto text = os::read_text_file(path, kConfigBytesMax);
    if (!text) return text.error();
    auto config = ModelConfig::from_json(*text, path);
    if (!config) return std::move(config).error();
    checkpoint_.config_ = *std::move(config);
    find_tokenizer(directory);
    auto map = read_token_map_file(directory);
    if (!map) return std::move(map).error();
    checkpoint_.token_map_ = *std::move(map);
    return read_shard(directory + "/" + std::string(kShardManifestName));
  }

  Status read_gguf(const std::string& path, const CheckpointOptions& options) {
    auto model = read_gguf_model(path, options);
    if (!model) return std::move(model).error();
    checkpoint_.directory_ = path;
    checkpoint_.config_ = std::move(model->config);
    checkpoint_.tables_ = std::move(model->tables);
    checkpoint_.gates_ = std::move(model->gates);
    checkpoint_.missing_ = std::move(model->missing);
    checkpoint_.token_map_ = std::move(model->token_map);
    if (os::is_directory(path)) find_tokenizer(path);
    return {};
  }

  // Leaves what hashing needs.
  void drop_tensors() {
    checkpoint_.tables_.clear();
    checkpoint_.gates_.clear();
    checkpoint_.missing_.clear();
  }

  Status open_catalog() {
    auto catalog = TensorCatalog::open(checkpoint_.directory_);
    if (!catalog) return std::move(catalog).error();
    catalog_ = *std::move(catalog);
    return {};
  }

  Status read_tables(const CheckpointOptions& options) {
    const ModelConfig& config = checkpoint_.config_;
    // Pad 0 will do: row counts depend on primes alone.
    const auto spec = HashSpec::compute(config.hash_config(0));
    if (!spec) return with_context(spec.error(), checkpoint_.directory_ + "/config.json");
    for (std::size_t i = 0; i < config.layer_ids.size(); ++i) {
      ENGRAM_TRY(read_table(spec->layers()[i], i, options));
    }
    return {};
  }

  Status read_gates() {
    for (const std::int64_t layer_id : checkpoint_.config_.layer_ids) {
      for (const std::string_view part : {"wkv.weight", "q_weight", "k_weight"}) {
        const auto name = resolve(layer_id, {part});
        if (!name && name.error().code != Code::not_found) return name.error();
        if (!name) {
          checkpoint_.missing_.push_back(fmt::format("layers.{}.engram.{}", layer_id, part));
        }
      }
    }
    if (checkpoint_.config_.value_rotated) {
      auto rotation = find_rotation(checkpoint_.directory_ + "/" + std::string(kRotationPath),
                                    checkpoint_.config_.hidden_dim);
      if (rotation) {
        checkpoint_.rotation_ = *std::move(rotation);
      } else if (rotation.error().code == Code::not_found) {
        checkpoint_.missing_.emplace_back(kRotationPath);
      } else {
        return std::move(rotation).error();
      }
    }
    if (!checkpoint_.missing_.empty()) return {};
    for (const std::int64_t layer_id : checkpoint_.config_.layer_ids) {
      ENGRAM_TRY(read_gate(layer_id));
    }
    return {};
  }

  Checkpoint take() { return std::move(checkpoint_); }

 private:
  void find_tokenizer(const std::string& directory) {
    const std::string tokenizer = directory + "/tokenizer.json";
    if (os::path_exists(tokenizer)) checkpoint_.tokenizer_path_ = tokenizer;
  }

  Status read_shard(const std::string& path) {
    if (!os::path_exists(path)) return {};
    const auto text = os::read_text_file(path, kConfigBytesMax);
    if (!text) return text.error();
    auto manifest = parse_shard_manifest(*text, path);
    if (!manifest) return std::move(manifest).error();
    if (manifest->layers.size() != checkpoint_.config_.layer_ids.size()) {
      return make_error(Code::corrupt, "{}: expected {} layers, found {}", path,
                        checkpoint_.config_.layer_ids.size(), manifest->layers.size());
    }
    for (std::size_t i = 0; i < manifest->layers.size(); ++i) {
      if (manifest->layers[i].layer_id == checkpoint_.config_.layer_ids[i]) continue;
      return make_error(Code::corrupt, "{}: expected layer {}, found {}", path,
                        checkpoint_.config_.layer_ids[i], manifest->layers[i].layer_id);
    }
    checkpoint_.shard_ = *std::move(manifest);
    return {};
  }

  // The one existing spelling of layers.L.engram.<part>, over all prefixes and parts.
  Result<std::string> resolve(std::int64_t layer_id, std::vector<std::string_view> parts) const {
    std::vector<std::string> found;
    for (const std::string_view prefix : kPrefixes) {
      for (const std::string_view part : parts) {
        std::string name = fmt::format("{}layers.{}.engram.{}", prefix, layer_id, part);
        if (catalog_.contains(name)) found.push_back(std::move(name));
      }
    }
    if (found.size() == 1) return found.front();
    if (found.empty()) {
      return make_error(Code::not_found, "{}: no tensor 'layers.{}.engram.{}' (with any prefix)",
                        checkpoint_.directory_, layer_id, parts.front());
    }
    return make_error(Code::corrupt, "{}: one tensor under two names: {}", checkpoint_.directory_,
                      fmt::join(found, ", "));
  }

  Result<TensorExtent> find(std::int64_t layer_id, std::string_view part) {
    const auto name = resolve(layer_id, {part});
    if (!name) return name.error();
    return catalog_.find(*name);
  }

  // A companion of layers.L.engram.<module> under any of its names; nothing where there is none.
  template <typename Names>
  Result<std::optional<TensorExtent>> find_companion(std::int64_t layer_id, std::string_view module,
                                                     const Names& names) {
    std::vector<std::string> spellings;
    for (const std::string_view name : names)
      spellings.push_back(fmt::format("{}.{}", module, name));
    const auto name = resolve(layer_id, {spellings.begin(), spellings.end()});
    if (!name && name.error().code == Code::not_found) return std::optional<TensorExtent>();
    if (!name) return name.error();
    auto tensor = catalog_.find(*name);
    if (!tensor) return std::move(tensor).error();
    return std::optional<TensorExtent>(*std::move(tensor));
  }

  Result<TensorExtent> find_wkv_scale(std::int64_t layer_id) {
    auto scale = find_companion(layer_id, "wkv", kScaleNames);
    if (!scale) return std::move(scale).error();
    if (!*scale) {
      return make_error(Code::not_found, "{}: no tensor 'layers.{}.engram.wkv.scale'",
                        checkpoint_.directory_, layer_id);
    }
    if (!is_e8m0((*scale)->dtype)) return wrong_dtype(**scale, "F8_E8M0 or U8");
    return **std::move(scale);
  }

  // What the caller declares comes before what the config does.
  Result<DeclaredFormat> declared_format(const CheckpointOptions& options) const {
    if (options.declared_format) return DeclaredFormat{options.declared_format, "--codec"};
    const std::string& name = checkpoint_.config_.declared_codec;
    if (name.empty()) return DeclaredFormat{};
    const auto format = row_format_from_name(name);
    if (!format) return with_context(format.error(), checkpoint_.directory_ + "/config.json");
    return DeclaredFormat{*format, "config.json"};
  }

  Status read_table(const LayerHash& hash, std::size_t index, const CheckpointOptions& options) {
    TableSource table;
    table.layer_id = hash.layer_id;
    const auto paged = resolve(hash.layer_id, {"embed.pages"});
    if (paged) return read_paged_table(hash, *paged, std::move(table));
    if (paged.error().code != Code::not_found) return paged.error();
    ENGRAM_TRY(find_table_tensors(table));
    if (checkpoint_.shard_) table.held = checkpoint_.shard_->layers[index].held;
    ENGRAM_TRY(check_held_count(table, index));
    ENGRAM_TRY(check_row_count(hash, index, table, options));
    const auto declared = declared_format(options);
    if (!declared) return declared.error();
    const auto layout =
        table_layout({table.weight, table.scale, table.bias},
                     static_cast<std::size_t>(checkpoint_.config_.head_dim), *declared);
    if (!layout) return layout.error();
    table.layout = *layout;
    checkpoint_.tables_.push_back(std::move(table));
    return {};
  }

  Status find_table_tensors(TableSource& table) {
    auto weight = find(table.layer_id, "embed.weight");
    if (!weight) return std::move(weight).error();
    table.weight = *std::move(weight);
    auto scale = find_companion(table.layer_id, "embed", kScaleNames);
    if (!scale) return std::move(scale).error();
    table.scale = *std::move(scale);
    auto bias = find_companion(table.layer_id, "embed", kBiasNames);
    if (!bias) return std::move(bias).error();
    table.bias = *std::move(bias);
    for (const TensorExtent* tensor : table.tensors()) {
      if (tensor->shape.size() == 2) continue;
      return make_error(Code::corrupt, "{}: '{}': expected two dimensions, found {}", tensor->path,
                        tensor->name, shape_text(tensor->shape));
    }
    return {};
  }

  // Sets row_count; a shard's tensor must have the rows that its manifest says.
  Status check_held_count(TableSource& table, std::size_t index) const {
    const std::uint64_t rows = table.weight.shape[0];
    table.row_count = table.held ? checkpoint_.shard_->layers[index].row_count : rows;
    if (table.held_count() == rows) return {};
    return make_error(Code::corrupt, "{}: '{}': {} says {} rows are held, the tensor has {}",
                      table.weight.path, table.weight.name, kShardManifestName, table.held_count(),
                      rows);
  }

  // A paged file describes itself; what it says must be what the config says.
  Status read_paged_table(const LayerHash& hash, const std::string& name, TableSource table) {
    auto pages = catalog_.find(name);
    if (!pages) return std::move(pages).error();
    const auto described = PagedDescription::from_metadata(catalog_.metadata(*pages), pages->path);
    if (!described) return described.error();
    ModelConfig& config = checkpoint_.config_;
    const HashConfig expected = config.hash_config(0);
    const HashConfig& found = described->geometry;
    const LayerHash& constants = described->constants;
    if (constants.layer_id != hash.layer_id || constants.row_count != hash.row_count ||
        constants.multipliers != hash.multipliers || constants.primes != hash.primes ||
        constants.offsets != hash.offsets || found.max_order != expected.max_order ||
        found.heads != expected.heads || found.compressed_size != expected.compressed_size ||
        described->layout.head_dim != static_cast<std::size_t>(config.head_dim)) {
      return make_error(Code::corrupt,
                        "{}: its description (layer {}, {} rows) is of another table than layer {} "
                        "of config.json ({} rows)",
                        pages->path, constants.layer_id, constants.row_count, hash.layer_id,
                        hash.row_count);
    }
    if (pages->dtype != "U8") return wrong_dtype(*pages, "U8");
    ENGRAM_TRY(check_shape(*pages, {described->page_count(), kPageBytes}));
    if (config.token_map_sha256.empty()) config.token_map_sha256 = described->token_map_sha256;
    table.layout = described->layout;
    table.placement = RowPlacement::paged;
    table.row_count = hash.row_count;
    table.weight = *std::move(pages);
    table.page_identity = described->identity();
    checkpoint_.tables_.push_back(std::move(table));
    return {};
  }

  // Three numbers must agree: the tensor's rows, the sum of the primes, and the config's count.
  Status check_row_count(const LayerHash& hash, std::size_t index, const TableSource& table,
                         const CheckpointOptions& options) const {
    const TensorExtent& weight = table.weight;
    const std::uint64_t rows = table.row_count;
    const auto& declared = checkpoint_.config_.num_embeddings;
    if (!declared.empty() && static_cast<std::uint64_t>(declared[index]) != rows) {
      return make_error(
          Code::corrupt,
          "{}: '{}': engram_num_embeddings says {} rows for layer {}, the tensor has {}",
          weight.path, weight.name, declared[index], hash.layer_id, rows);
    }
    if (rows < hash.row_count) {
      std::size_t column = hash.primes.size() - 1;
      while (column > 0 && hash.offsets[column] >= rows) --column;
      return make_error(Code::corrupt,
                        "{}: '{}': column {} needs rows {}..{}, the table has {} (layer {}, primes "
                        "from engram_vocab_size {})",
                        weight.path, weight.name, column, hash.offsets[column],
                        hash.offsets[column] + hash.primes[column] - 1, rows, hash.layer_id,
                        checkpoint_.config_.engram_vocab_size);
    }
    if (rows > hash.row_count && !options.allow_spare_rows) {
      return make_error(
          Code::corrupt,
          "{}: '{}': the primes from engram_vocab_size {} add up to {} rows, the table "
          "has {}: the geometry in config.json is not this table's",
          weight.path, weight.name, checkpoint_.config_.engram_vocab_size, hash.row_count, rows);
    }
    return {};
  }

  Status read_gate(std::int64_t layer_id) {
    const ModelConfig& config = checkpoint_.config_;
    const auto outputs = static_cast<std::uint64_t>((config.copies + 1) * config.hidden_dim);
    const auto inputs = static_cast<std::uint64_t>(config.embedding_dim());
    const auto copies = static_cast<std::uint64_t>(config.copies);
    const auto hidden = static_cast<std::uint64_t>(config.hidden_dim);
    auto wkv = find(layer_id, "wkv.weight");
    if (!wkv) return std::move(wkv).error();
    ENGRAM_TRY(check_shape(*wkv, {outputs, inputs}));
    GateSource gate;
    gate.layer_id = layer_id;
    if (is_fp8(wkv->dtype)) {
      auto scale = find_wkv_scale(layer_id);
      if (!scale) return std::move(scale).error();
      const auto tiles = [](std::uint64_t size) { return (size + kScaleGroup - 1) / kScaleGroup; };
      ENGRAM_TRY(check_shape(*scale, {tiles(outputs), tiles(inputs)}));
      gate.wkv_scale = *std::move(scale);
    } else if (wkv->dtype != "BF16") {
      return wrong_dtype(*wkv, "F8_E4M3 or BF16");
    }
    gate.wkv = *std::move(wkv);
    for (auto [part, place] :
         {std::pair{"q_weight", &gate.q_weight}, {"k_weight", &gate.k_weight}}) {
      auto tensor = find(layer_id, part);
      if (!tensor) return std::move(tensor).error();
      if (tensor->dtype != "BF16") return wrong_dtype(*tensor, "BF16");
      ENGRAM_TRY(check_shape(*tensor, {copies, hidden}));
      *place = *std::move(tensor);
    }
    checkpoint_.gates_.push_back(std::move(gate));
    return {};
  }

  TensorCatalog catalog_;
  Checkpoint checkpoint_;
};

Result<Checkpoint> Checkpoint::open_config(const std::string& path) {
  CheckpointReader reader;
  if (is_gguf_model(path)) {
    ENGRAM_TRY(reader.read_gguf(path, {}));
    reader.drop_tensors();
  } else {
    ENGRAM_TRY(reader.read_config(path));
  }
  return reader.take();
}

Result<Checkpoint> Checkpoint::open(const std::string& path, const CheckpointOptions& options) {
  CheckpointReader reader;
  if (is_gguf_model(path)) {
    ENGRAM_TRY(reader.read_gguf(path, options));
    return reader.take();
  }
  ENGRAM_TRY(reader.read_config(path));
  ENGRAM_TRY(reader.open_catalog());
  ENGRAM_TRY(reader.read_tables(options));
  ENGRAM_TRY(reader.read_gates());
  return reader.take();
}

}  // namespace engram
