// Writes the procedural model directory in the official layout.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engram/convert.hpp"
#include "engram/hash.hpp"
#include "engram/token_map.hpp"

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
#include "base/error.hpp"
#include "convert/config_writer.hpp"
#include "convert/procedural.hpp"
#include "convert/safetensors_writer.hpp"
#include "os/file.hpp"
#include "simd/fp8.hpp"
#include "token/tokenizer_json.hpp"

namespace engram {
namespace {

constexpr int kMaxOrder = 4;
constexpr int kHeads = 8;
constexpr TokenId kPadToken = 2;
constexpr double kNormEps = 1e-20;
constexpr std::uint64_t kChunkRows = 1 << 15;
constexpr std::uint64_t kTile = simd::kFp8Group;

// Order of a shard's tensors, as in the release.
enum Part : std::size_t { embed_weight, embed_scale, wkv_weight, wkv_scale, q_weight, k_weight };

// codes [n] under one scale per 32 -> bfloat16 [n], exact for procedural scales.
void decode_to_bfloat16(std::span<const std::byte> codes, std::span<const std::byte> scales,
                        std::size_t codes_per_scale, std::span<std::byte> out) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::uint32_t bits =
        simd::fp8_value_bits(static_cast<std::uint8_t>(codes[i]),
                             static_cast<std::uint8_t>(scales[i / codes_per_scale]));
    store_le(out.data() + 2 * i, bfloat16_from_float_bits(bits));
  }
}

class ShardWriter {
 public:
  ShardWriter(const ModelRecipe& recipe, const LayerHash& layer)
      : recipe_(recipe),
        layer_(layer),
        outputs_(static_cast<std::uint64_t>((recipe.copies + 1) * recipe.hidden_dim)),
        inputs_(std::uint64_t{(kMaxOrder - 1) * kHeads} * kProceduralHeadDim),
        norms_(static_cast<std::uint64_t>(recipe.copies * recipe.hidden_dim)) {
    plan_ = plan_safetensors(tensors());
  }

  const SafetensorsPlan& plan() const { return plan_; }

  // rows: those to write, ascending; empty means every row.
  Status write(const std::string& path, const std::set<RowId>& rows, const Progress& progress) {
    auto created = os::WritableFile::create(path);
    if (!created) return std::move(created).error();
    os::WritableFile& file = *created;
    ENGRAM_TRY(file.append(std::as_bytes(std::span(plan_.header))));
    ENGRAM_TRY(file.resize(plan_.file_bytes));
    ENGRAM_TRY(write_gate(file));
    if (!recipe_.sparse) {
      for (std::uint64_t first = 0; first < layer_.row_count; first += kChunkRows) {
        const std::uint64_t count = std::min(kChunkRows, layer_.row_count - first);
        ENGRAM_TRY(write_rows(file, first, count));
        if (progress) progress(first + count, layer_.row_count);
      }
    }
    for (const RowId row : rows) {
      ENGRAM_TRY(write_rows(file, static_cast<std::uint64_t>(row), 1));
    }
    return file.sync_and_close();
  }

 private:
  std::vector<TensorPlan> tensors() const {
    const std::uint64_t rows = layer_.row_count;
    const auto copies = static_cast<std::uint64_t>(recipe_.copies);
    const auto hidden = static_cast<std::uint64_t>(recipe_.hidden_dim);
    const bool bf16 = recipe_.bf16;
    const std::string_view codes = bf16 ? "BF16" : "F8_E4M3";
    const std::uint64_t width = bf16 ? 2 : 1;
    const std::uint64_t tile_rows = (outputs_ + kTile - 1) / kTile;
    std::vector<TensorPlan> list;
    const auto add = [&](std::string_view part, std::string_view dtype,
                         std::vector<std::uint64_t> shape, std::uint64_t element_bytes) {
      const std::uint64_t bytes = shape[0] * shape[1] * element_bytes;
      list.push_back({fmt::format("layers.{}.engram.{}", layer_.layer_id, part), std::string(dtype),
                      std::move(shape), bytes, 0});
    };
    add("embed.weight", codes, {rows, kProceduralHeadDim}, width);
    add("embed.scale", "F8_E8M0", {rows, kProceduralScales}, 1);
    add("wkv.weight", codes, {outputs_, inputs_}, width);
    add("wkv.scale", "F8_E8M0", {tile_rows, inputs_ / kTile}, 1);
    add("q_weight", "BF16", {copies, hidden}, 2);
    add("k_weight", "BF16", {copies, hidden}, 2);
    if (bf16) {
      list.erase(list.begin() + Part::wkv_scale);
      list.erase(list.begin() + Part::embed_scale);
    }
    return list;
  }

  // Where a part begins in the file; BF16 models have no scales.
  std::uint64_t offset(Part part) const {
    const std::size_t skipped = recipe_.bf16 ? (part > embed_scale) + (part > wkv_scale) : 0;
    return plan_.tensors[part - skipped].offset_bytes;
  }

  Status write_rows(os::WritableFile& file, std::uint64_t first, std::uint64_t count) {
    codes_.resize(count * kProceduralHeadDim);
    scales_.resize(count * kProceduralScales);
    for (std::uint64_t i = 0; i < count; ++i) {
      fill_procedural_row(recipe_.seed, layer_.layer_id, first + i,
                          std::span(codes_).subspan(i * kProceduralHeadDim, kProceduralHeadDim),
                          std::span(scales_).subspan(i * kProceduralScales, kProceduralScales));
    }
    if (recipe_.bf16) {
      decoded_.resize(2 * codes_.size());
      decode_to_bfloat16(codes_, scales_, kTile, decoded_);
      return file.write_at(offset(embed_weight) + first * 2 * kProceduralHeadDim, decoded_);
    }
    ENGRAM_TRY(file.write_at(offset(embed_weight) + first * kProceduralHeadDim, codes_));
    return file.write_at(offset(embed_scale) + first * kProceduralScales, scales_);
  }

  Status write_gate(os::WritableFile& file) {
    const std::uint64_t columns_of_tiles = inputs_ / kTile;
    std::vector<std::byte> codes(outputs_ * inputs_);
    std::vector<std::byte> scales((outputs_ + kTile - 1) / kTile * columns_of_tiles);
    fill_fp8_weights(recipe_.seed, layer_.layer_id, wkv_weight, codes);
    fill_tile_scales(recipe_.seed, layer_.layer_id, wkv_scale, scales);
    if (recipe_.bf16) {
      std::vector<std::byte> decoded(2 * codes.size());
      for (std::uint64_t row = 0; row < outputs_; ++row) {
        decode_to_bfloat16(std::span(codes).subspan(row * inputs_, inputs_),
                           std::span(scales).subspan(row / kTile * columns_of_tiles), kTile,
                           std::span(decoded).subspan(2 * row * inputs_, 2 * inputs_));
      }
      ENGRAM_TRY(file.write_at(offset(wkv_weight), decoded));
    } else {
      ENGRAM_TRY(file.write_at(offset(wkv_weight), codes));
      ENGRAM_TRY(file.write_at(offset(wkv_scale), scales));
    }
    std::vector<std::byte> norm(2 * norms_);
    for (const Part part : {q_weight, k_weight}) {
      fill_norm_weights(recipe_.seed, layer_.layer_id, part, norm);
      ENGRAM_TRY(file.write_at(offset(part), norm));
    }
    return {};
  }

  const ModelRecipe& recipe_;
  const LayerHash& layer_;
  std::uint64_t outputs_;
  std::uint64_t inputs_;
  std::uint64_t norms_;
  SafetensorsPlan plan_;
  std::vector<std::byte> codes_;
  std::vector<std::byte> scales_;
  std::vector<std::byte> decoded_;
};

ModelConfig model_config(const ModelRecipe& recipe, const TokenMap& map, const HashSpec& spec) {
  ModelConfig config;
  config.layer_ids = recipe.layer_ids;
  for (const LayerHash& layer : spec.layers()) {
    config.num_embeddings.push_back(static_cast<std::int64_t>(layer.row_count));
  }
  config.max_ngram_size = kMaxOrder;
  config.heads = kHeads;
  config.head_dim = kProceduralHeadDim;
  config.engram_vocab_size = recipe.engram_vocab_size;
  config.compressed_vocab_size = map.compressed_size();
  config.pad_token_id = kPadToken;
  config.vocab_size = static_cast<std::int64_t>(map.ids().size());
  config.hidden_dim = recipe.hidden_dim;
  config.copies = recipe.copies;
  config.norm_eps = kNormEps;
  config.token_map_sha256 = map.sha256();
  return config;
}

// Rows that the n-grams of `ids` reach, per layer.
Result<std::vector<std::set<RowId>>> rows_for_ids(const ModelRecipe& recipe, const TokenMap& map,
                                                  const Hasher& hasher) {
  std::vector<std::set<RowId>> rows(hasher.spec().layers().size());
  std::vector<CompressedId> compressed(recipe.ids.size());
  ENGRAM_TRY(map.compress(recipe.ids, {}, compressed));
  const std::size_t keys_per_layer = compressed.size() * (kMaxOrder - 1);
  std::vector<Key> keys(rows.size() * keys_per_layer);
  ENGRAM_TRY(hasher.keys(compressed, Lookback(), keys));
  std::vector<RowId> flat(keys_per_layer * kHeads);
  for (std::size_t table = 0; table < rows.size(); ++table) {
    ENGRAM_TRY(hasher.rows(static_cast<int>(table),
                           std::span(keys).subspan(table * keys_per_layer, keys_per_layer), flat));
    rows[table].insert(flat.begin(), flat.end());
  }
  return rows;
}

Status check_recipe(const ModelRecipe& recipe) {
  if (!recipe.ids.empty() && !recipe.sparse) {
    return make_error(Code::invalid_argument,
                      "make-model: rows for ids are only chosen in a sparse model; a dense one has "
                      "every row");
  }
  if (recipe.hidden_dim >= 1 && recipe.hidden_dim <= 1 << 16 && recipe.copies >= 1 &&
      recipe.copies <= 64) {
    return {};
  }
  return make_error(Code::invalid_argument,
                    "make-model: expected hidden 1..65536 and copies 1..64, found {} and {}",
                    recipe.hidden_dim, recipe.copies);
}

Status write_model(const std::string& directory, const ModelRecipe& recipe,
                   const Progress& progress) {
  const auto tokenizer = os::read_text_file(recipe.tokenizer_path, kTokenizerBytesMax);
  if (!tokenizer) return tokenizer.error();
  const auto map = TokenMap::from_tokenizer_json(*tokenizer, recipe.tokenizer_path);
  if (!map) return map.error();
  if (map->ids().size() <= kPadToken) {
    return make_error(Code::invalid_argument, "{}: expected at least 3 tokens (pad is 2), found {}",
                      recipe.tokenizer_path, map->ids().size());
  }
  const HashConfig config{
      recipe.layer_ids,     kMaxOrder, kHeads, recipe.engram_vocab_size, map->compressed_size(),
      map->ids()[kPadToken]};
  const auto spec = HashSpec::compute(config);
  if (!spec) return spec.error();
  const auto rows = rows_for_ids(recipe, *map, Hasher(*spec));
  if (!rows) return rows.error();
  std::string weight_map;
  std::uint64_t total_bytes = 0;
  const std::size_t shards = spec->layers().size();
  for (std::size_t i = 0; i < shards; ++i) {
    ShardWriter shard(recipe, spec->layers()[i]);
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards);
    ENGRAM_TRY(shard.write(fmt::format("{}/{}", directory, name), (*rows)[i], progress));
    for (const TensorPlan& tensor : shard.plan().tensors) {
      weight_map +=
          fmt::format("{}\n    \"{}\": \"{}\"", weight_map.empty() ? "" : ",", tensor.name, name);
      total_bytes += tensor.size_bytes;
    }
  }
  ENGRAM_TRY(os::write_text_file(
      directory + "/model.safetensors.index.json",
      fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n  }}\n}}\n",
                  total_bytes, weight_map)));
  ENGRAM_TRY(os::write_text_file(directory + "/tokenizer.json", *tokenizer));
  return os::write_text_file(directory + "/config.json",
                             model_config_json(model_config(recipe, *map, *spec)));
}

}  // namespace

Status make_model(const std::string& directory, const ModelRecipe& recipe,
                  const Progress& progress) {
  ENGRAM_TRY(check_recipe(recipe));
  std::string target = directory;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  if (os::path_exists(target) && !os::is_empty_directory(target)) {
    return make_error(Code::invalid_argument, "{}: exists; refusing to overwrite it", target);
  }
  auto partial = os::create_unique_directory(target + ".partial-");
  if (!partial) return std::move(partial).error();
  Status status = write_model(*partial, recipe, progress);
  if (status) status = os::rename_directory(*partial, target);
  if (!status) os::remove_tree(*partial);
  return status;
}

}  // namespace engram
