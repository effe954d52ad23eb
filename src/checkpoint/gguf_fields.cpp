// Looks up keys and tensors of a GGUF header under the names of every dialect.
#include "checkpoint/gguf_fields.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "checkpoint/tensor_checks.hpp"

namespace engram {
namespace {

Result<std::vector<std::int64_t>> read_integers(const TensorExtent& extent) {
  constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
  const std::size_t width = extent.dtype == "I32" ? 4 : extent.dtype == "I64" ? 8 : 0;
  if (width == 0) return wrong_dtype(extent, "I32 or I64");
  if (extent.size_bytes > kBytesMax) {
    return make_error(Code::corrupt, "{}: '{}': {} bytes of constants", extent.path, extent.name,
                      extent.size_bytes);
  }
  const auto file = os::open_files(extent.files());
  if (!file) return file.error();
  std::vector<std::byte> bytes(extent.size_bytes);
  ENGRAM_TRY((*file)->read_at(extent.offset_bytes, bytes));
  std::vector<std::int64_t> values(bytes.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = width == 4 ? load_le<std::int32_t>(bytes.data() + 4 * i)
                           : load_le<std::int64_t>(bytes.data() + 8 * i);
  }
  return values;
}

}  // namespace

GgufFields::GgufFields(const GgufHeader& header, std::string where)
    : header_(header), where_(std::move(where)) {
  const auto found = header.metadata.find("general.architecture");
  if (found == header.metadata.end()) return;
  if (const auto* text = std::get_if<std::string>(&found->second)) architecture_ = *text;
}

const GgufValue* GgufFields::find(Names names) const {
  for (const std::string_view name : names) {
    const auto found = header_.metadata.find(fmt::format("{}.{}", architecture_, name));
    if (found != header_.metadata.end()) return &found->second;
  }
  return nullptr;
}

const TensorExtent* GgufFields::tensor(Names names) const {
  for (const std::string_view name : names) {
    const auto found = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                    [&](const TensorExtent& t) { return t.name == name; });
    if (found != header_.tensors.end()) return &*found;
  }
  return nullptr;
}

const TensorExtent* GgufFields::layer_tensor(std::int64_t layer, Names parts) const {
  for (const std::string_view part : parts) {
    const std::string name = fmt::format("blk.{}.{}", layer, part);
    if (const auto* found = tensor({name + ".weight", name})) return found;
  }
  return nullptr;
}

std::vector<std::int64_t> GgufFields::integers(Names keys, std::string_view tensor_name) {
  if (const auto* list = find_as<std::vector<std::int64_t>>(keys)) return *list;
  if (const auto* extent = tensor_name.empty() ? nullptr : tensor({tensor_name})) {
    auto read = read_integers(*extent);
    if (read) return *std::move(read);
    if (status_) status_ = std::move(read).error();
    return {};
  }
  missing_.push_back(fmt::format("{}.{}", architecture_, *keys.begin()));
  return {};
}

std::int64_t GgufFields::integer(Names keys) {
  if (const auto* number = find_as<std::int64_t>(keys)) return *number;
  missing_.push_back(fmt::format("{}.{}", architecture_, *keys.begin()));
  return 0;
}

Status GgufFields::complete() const {
  if (!status_) return status_;
  if (missing_.empty()) return {};
  return make_error(Code::corrupt, "{}: the conversion left out {}", where_,
                    fmt::join(missing_, ", "));
}

}  // namespace engram
