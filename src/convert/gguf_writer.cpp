// Lays out a GGUF file: keys, tensor infos, then tensors at aligned offsets.
#include "convert/gguf_writer.hpp"

#include "base/bytes.hpp"

namespace engram {
namespace {

// Value types of keys.
constexpr std::uint32_t kU32 = 4;
constexpr std::uint32_t kF32 = 6;
constexpr std::uint32_t kString = 8;
constexpr std::uint32_t kArray = 9;
constexpr std::uint32_t kU64 = 10;

template <typename T>
void put(std::string& out, T value) {
  std::byte bytes[sizeof(T)];
  store_le(bytes, value);
  out.append(reinterpret_cast<const char*>(bytes), sizeof(T));
}

void put_text(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

}  // namespace

GgufHeaderWriter::GgufHeaderWriter(std::uint32_t alignment) : alignment_(alignment) {
  add("general.alignment", alignment);
}

void GgufHeaderWriter::key(std::string_view name, std::uint32_t kind) {
  ++keys_;
  put_text(fields_, name);
  put(fields_, kind);
}

void GgufHeaderWriter::add(std::string_view name, std::string_view text) {
  key(name, kString);
  put_text(fields_, text);
}

void GgufHeaderWriter::add(std::string_view name, std::uint32_t value) {
  key(name, kU32);
  put(fields_, value);
}

void GgufHeaderWriter::add(std::string_view name, float value) {
  key(name, kF32);
  put(fields_, value);
}

void GgufHeaderWriter::add(std::string_view name, std::span<const std::uint32_t> values) {
  key(name, kArray);
  put(fields_, kU32);
  put<std::uint64_t>(fields_, values.size());
  for (const std::uint32_t value : values) put(fields_, value);
}

void GgufHeaderWriter::add(std::string_view name, std::span<const std::uint64_t> values) {
  key(name, kArray);
  put(fields_, kU64);
  put<std::uint64_t>(fields_, values.size());
  for (const std::uint64_t value : values) put(fields_, value);
}

void GgufHeaderWriter::add_tensor(TensorPlan tensor, std::uint32_t type) {
  tensors_.push_back(std::move(tensor));
  types_.push_back(type);
}

OutputFile GgufHeaderWriter::finish(std::string name) {
  const auto aligned = [&](std::uint64_t bytes) {
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
  };
  OutputFile file;
  file.name = std::move(name);
  std::string& header = file.header;
  header = "GGUF";
  put<std::uint32_t>(header, 3);
  put<std::uint64_t>(header, tensors_.size());
  put(header, keys_);
  header += fields_;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    TensorPlan& tensor = tensors_[i];
    put_text(header, tensor.name);
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::size_t d = tensor.shape.size(); d-- > 0;) put(header, tensor.shape[d]);
    put(header, types_[i]);
    put(header, offset);
    tensor.offset_bytes = offset;
    offset = aligned(offset + tensor.size_bytes);
  }
  header.resize(aligned(header.size()), '\0');
  for (TensorPlan& tensor : tensors_) tensor.offset_bytes += header.size();
  file.file_bytes = header.size() + offset;
  file.tensors = std::move(tensors_);
  return file;
}

}  // namespace engram
