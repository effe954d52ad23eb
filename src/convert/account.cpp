// Bytes and weights of a whole checkpoint, tables counted apart.
#include <string>

#include "engram/convert.hpp"

#include "checkpoint/gguf_files.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_catalog.hpp"
#include "checkpoint/tensor_checks.hpp"

namespace engram {
namespace {

bool is_scale(std::string_view name) {
  return name.ends_with(".scale") || name.ends_with(".scales") || name.ends_with(".biases") ||
         name.ends_with(".weight_scale") || name.ends_with(".weight_scale_inv");
}

std::uint64_t elements(const TensorExtent& tensor) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : tensor.shape) count *= dim;
  return count;
}

// Weights that a tensor stands for: two to a byte where 4-bit codes are packed (one scale covers 16
// of its bytes, 32 weights), and none in scales.
std::uint64_t weights_of(const TensorExtent& tensor, const TensorExtent* scale) {
  if (is_scale(tensor.name)) return 0;
  const bool bytes = tensor.dtype == "U8" || tensor.dtype == "I8";
  const bool packed = bytes && scale != nullptr && !scale->shape.empty() && !tensor.shape.empty() &&
                      scale->shape.back() * 16 == tensor.shape.back();
  return elements(tensor) * (packed ? 2 : 1);
}

Status count_safetensors(const std::string& directory, Account::Part& all) {
  auto catalog = TensorCatalog::open(directory);
  if (!catalog) return std::move(catalog).error();
  for (const std::string& name : catalog->names()) {
    const auto tensor = catalog->find(name);
    if (!tensor) return tensor.error();
    const std::string base = name.substr(0, name.rfind('.'));
    std::optional<TensorExtent> scale;
    for (const std::string_view suffix : {".scale", ".weight_scale", ".scales"}) {
      if (!scale && catalog->contains(base + std::string(suffix))) {
        auto found = catalog->find(base + std::string(suffix));
        if (!found) return std::move(found).error();
        scale = *std::move(found);
      }
    }
    all.bytes += tensor->size_bytes;
    all.weights += weights_of(*tensor, scale ? &*scale : nullptr);
  }
  return {};
}

Status count_gguf(const std::string& path, Account::Part& all) {
  const auto header = read_gguf_files(path);
  if (!header) return header.error();
  for (const TensorExtent& tensor : header->tensors) {
    all.bytes += tensor.size_bytes;
    all.weights += elements(tensor);
  }
  return {};
}

}  // namespace

double Account::Part::bits_per_weight() const {
  return weights == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(weights);
}

Result<Account> account(const Checkpoint& model) {
  Account::Part all;
  const bool gguf = is_gguf_model(model.directory());
  ENGRAM_TRY(gguf ? count_gguf(model.directory(), all) : count_safetensors(model.directory(), all));
  Account result;
  std::uint64_t counted_weights = 0;
  for (const TableSource& table : model.tables()) {
    for (const TensorExtent* tensor : table.tensors()) {
      result.tables.bytes += tensor->size_bytes;
      const bool scale = tensor != &table.weight;
      counted_weights += gguf
                             ? elements(*tensor)
                             : weights_of(*tensor, scale || !table.scale ? nullptr : &*table.scale);
    }
    result.tables.weights += table.held_count() * table.layout.head_dim;
  }
  result.rest = {all.bytes - result.tables.bytes, all.weights - counted_weights};
  return result;
}

}  // namespace engram
