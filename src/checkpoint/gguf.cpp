// A strict reader of GGUF headers, versions 2 and 3.
#include "checkpoint/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "base/bytes.hpp"
#include "base/checked.hpp"
#include "base/error.hpp"

namespace engram {
namespace {

constexpr std::uint32_t kMagic = 0x4655'4747;  // "GGUF"
constexpr std::uint64_t kLengthMax = std::uint64_t{1} << 30;
constexpr std::uint32_t kDimensionsMax = 4;

struct Type {
  std::uint32_t id;
  std::string_view name;
  std::uint64_t columns;  // of a block
  std::uint64_t bytes;    // of a block
  std::optional<RowFormat> format = std::nullopt;
};
// Source: ggml.h and ggml-common.h, block structures.
constexpr std::array kTypes = {
    Type{0, "F32", 1, 4, RowFormat::f32},
    Type{1, "F16", 1, 2, RowFormat::f16},
    Type{2, "Q4_0", 32, 18},
    Type{3, "Q4_1", 32, 20},
    Type{6, "Q5_0", 32, 22},
    Type{7, "Q5_1", 32, 24},
    Type{8, "Q8_0", 32, 34, RowFormat::q8_0},
    Type{10, "Q2_K", 256, 84, RowFormat::q2_k},
    Type{11, "Q3_K", 256, 110, RowFormat::q3_k},
    Type{12, "Q4_K", 256, 144, RowFormat::q4_k},
    Type{13, "Q5_K", 256, 176, RowFormat::q5_k},
    Type{14, "Q6_K", 256, 210, RowFormat::q6_k},
    Type{16, "IQ2_XXS", 256, 66},
    Type{17, "IQ2_XS", 256, 74},
    Type{18, "IQ3_XXS", 256, 98},
    Type{19, "IQ1_S", 256, 50},
    Type{20, "IQ4_NL", 32, 18},
    Type{21, "IQ3_S", 256, 110},
    Type{22, "IQ2_S", 256, 82},
    Type{23, "IQ4_XS", 256, 136},
    Type{24, "I8", 1, 1},
    Type{25, "I16", 1, 2},
    Type{26, "I32", 1, 4},
    Type{27, "I64", 1, 8},
    Type{28, "F64", 1, 8},
    Type{29, "IQ1_M", 256, 56},
    Type{30, "BF16", 1, 2, RowFormat::bf16},
    Type{34, "TQ1_0", 256, 54},
    Type{35, "TQ2_0", 256, 66},
    Type{39, "MXFP4", 32, 17, RowFormat::mxfp4_block},
    Type{40, "NVFP4", 64, 36},
};

// Value types of metadata.
enum Kind : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// Bytes of a number, or 0 for strings, arrays and unknown kinds.
std::uint64_t kind_bytes(std::uint32_t kind) {
  constexpr std::array<std::uint64_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kind < kBytes.size() ? kBytes[kind] : 0;
}

bool is_real(std::uint32_t kind) { return kind == kF32 || kind == kF64; }

// Reads a header front to back through a buffer; the first failure stays, and zeros follow it.
class Cursor {
 public:
  explicit Cursor(const os::ReadableFile& file) : file_(file) {}

  template <typename T>
  T number() {
    std::array<std::byte, sizeof(T)> bytes{};
    take(bytes);
    return load_le<T>(bytes.data());
  }

  std::string text() {
    const auto length = number<std::uint64_t>();
    if (!room(length, 1, "string")) return {};
    std::string result(length, '\0');
    take(std::as_writable_bytes(std::span(result)));
    return result;
  }

  // True where `count` items of at least `bytes` each can still follow.
  bool room(std::uint64_t count, std::uint64_t bytes, std::string_view what) {
    const auto total = checked_multiply(count, bytes);
    if (status_ && count <= kLengthMax && total &&
        range_fits(position_, *total, file_.size_bytes())) {
      return true;
    }
    fail(make_error(Code::corrupt, "{} of {} at byte {}: the file has {} bytes", what, count,
                    position_, file_.size_bytes()));
    return false;
  }

  void take(std::span<std::byte> out) {
    while (!out.empty() && status_) {
      if (position_ < begin_ || position_ >= begin_ + buffer_.size()) refill();
      if (!status_) break;
      const std::size_t at = position_ - begin_;
      const std::size_t count = std::min(out.size(), buffer_.size() - at);
      std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(at), count, out.begin());
      out = out.subspan(count);
      position_ += count;
    }
    std::fill(out.begin(), out.end(), std::byte{0});
  }

  void skip(std::uint64_t bytes) { position_ += bytes; }
  void fail(Error error) {
    if (status_) status_ = std::move(error);
  }
  const Status& status() const { return status_; }
  std::uint64_t position() const { return position_; }

 private:
  void refill() {
    constexpr std::uint64_t kBufferBytes = 1 << 20;
    if (position_ >= file_.size_bytes()) {
      return fail(make_error(Code::corrupt, "truncated: the header goes on at byte {} of {}",
                             position_, file_.size_bytes()));
    }
    begin_ = position_;
    buffer_.resize(std::min(kBufferBytes, file_.size_bytes() - begin_));
    if (Status read = file_.read_at(begin_, buffer_); !read) fail(std::move(read).error());
  }

  const os::ReadableFile& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;
  std::uint64_t position_ = 0;
  Status status_;
};

template <typename T>
std::int64_t widened(Cursor& cursor) {
  return static_cast<std::int64_t>(cursor.number<T>());
}

std::int64_t read_integer(Cursor& cursor, std::uint32_t kind) {
  switch (kind) {
    case kU8:
    case kBool:
      return widened<std::uint8_t>(cursor);
    case kI8:
      return widened<std::int8_t>(cursor);
    case kU16:
      return widened<std::uint16_t>(cursor);
    case kI16:
      return widened<std::int16_t>(cursor);
    case kU32:
      return widened<std::uint32_t>(cursor);
    case kI32:
      return widened<std::int32_t>(cursor);
    case kI64:
      return widened<std::int64_t>(cursor);
    default: {
      const auto value = cursor.number<std::uint64_t>();
      if (value > std::uint64_t{0x7FFF'FFFF'FFFF'FFFF}) {
        cursor.fail(make_error(Code::unsupported, "a number of 2^63 or more: {}", value));
      }
      return static_cast<std::int64_t>(value);
    }
  }
}

double read_real(Cursor& cursor, std::uint32_t kind) {
  return kind == kF32 ? static_cast<double>(cursor.number<float>()) : cursor.number<double>();
}

GgufValue read_array(Cursor& cursor) {
  const auto kind = cursor.number<std::uint32_t>();
  const auto count = cursor.number<std::uint64_t>();
  if (kind == kString) {
    if (!cursor.room(count, 8, "array of strings")) return {};
    for (std::uint64_t i = 0; i < count && cursor.status(); ++i) {
      const auto length = cursor.number<std::uint64_t>();
      if (cursor.room(length, 1, "string")) cursor.skip(length);
    }
    return {};
  }
  if (kind_bytes(kind) == 0) {
    cursor.fail(make_error(Code::unsupported, "an array of value type {}", kind));
    return {};
  }
  if (!cursor.room(count, kind_bytes(kind), "array")) return {};
  if (is_real(kind)) {
    std::vector<double> values(count);
    for (double& value : values) value = read_real(cursor, kind);
    return values;
  }
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) value = read_integer(cursor, kind);
  return values;
}

GgufValue read_value(Cursor& cursor) {
  const auto kind = cursor.number<std::uint32_t>();
  if (kind == kString) return cursor.text();
  if (kind == kArray) return read_array(cursor);
  if (kind_bytes(kind) == 0) {
    cursor.fail(make_error(Code::unsupported, "value type {}", kind));
    return {};
  }
  if (is_real(kind)) return read_real(cursor, kind);
  return read_integer(cursor, kind);
}

// Blocks of a tensor's type that its shape fills, in bytes.
Result<std::uint64_t> tensor_bytes(const TensorExtent& tensor, const Type& type) {
  std::optional<std::uint64_t> elements = 1;
  for (const std::uint64_t dim : tensor.shape) {
    elements = checked_multiply(*elements, dim);
    if (!elements || *elements >> 63 != 0) {
      return make_error(Code::corrupt, "tensor '{}': its shape overflows", tensor.name);
    }
  }
  if (tensor.shape.back() % type.columns != 0) {
    return make_error(Code::corrupt, "tensor '{}': rows of {} are not whole blocks of {} ({})",
                      tensor.name, tensor.shape.back(), type.columns, type.name);
  }
  const auto bytes = checked_multiply(*elements / type.columns, type.bytes);
  if (bytes) return *bytes;
  return make_error(Code::corrupt, "tensor '{}': its size overflows", tensor.name);
}

Result<TensorExtent> read_tensor(Cursor& cursor) {
  TensorExtent tensor;
  tensor.name = cursor.text();
  const auto dimensions = cursor.number<std::uint32_t>();
  if (cursor.status() && (dimensions == 0 || dimensions > kDimensionsMax)) {
    return make_error(Code::corrupt, "tensor '{}': expected 1 to {} dimensions, found {}",
                      tensor.name, kDimensionsMax, dimensions);
  }
  for (std::uint32_t i = 0; i < dimensions && cursor.status(); ++i) {
    tensor.shape.insert(tensor.shape.begin(), cursor.number<std::uint64_t>());
  }
  const auto id = cursor.number<std::uint32_t>();
  tensor.offset_bytes = cursor.number<std::uint64_t>();
  if (!cursor.status()) return cursor.status().error();
  const auto* type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& known) { return known.id == id; });
  if (type == kTypes.end()) {
    tensor.dtype = fmt::format("type {}", id);
    return tensor;
  }
  tensor.dtype = type->name;
  const auto bytes = tensor_bytes(tensor, *type);
  if (!bytes) return bytes.error();
  tensor.size_bytes = *bytes;
  return tensor;
}

Result<std::uint64_t> alignment_of(const GgufHeader& header) {
  const auto found = header.metadata.find("general.alignment");
  if (found == header.metadata.end()) return std::uint64_t{32};
  const auto* value = std::get_if<std::int64_t>(&found->second);
  if (value != nullptr && *value > 0 && *value <= 1 << 30 &&
      std::has_single_bit(static_cast<std::uint64_t>(*value))) {
    return static_cast<std::uint64_t>(*value);
  }
  return make_error(Code::corrupt, "general.alignment: expected a power of two");
}

// Offsets become absolute; extents must be aligned, disjoint and inside the file.
Status place_tensors(GgufHeader& header, std::uint64_t header_bytes, std::uint64_t file_bytes) {
  const auto alignment = alignment_of(header);
  if (!alignment) return alignment.error();
  const std::uint64_t data = (header_bytes + *alignment - 1) / *alignment * *alignment;
  for (TensorExtent& tensor : header.tensors) {
    const auto offset = checked_add(data, tensor.offset_bytes);
    if (tensor.offset_bytes % *alignment != 0) {
      return make_error(Code::corrupt, "tensor '{}': offset {} is not a multiple of {}",
                        tensor.name, tensor.offset_bytes, *alignment);
    }
    if (!offset || !range_fits(*offset, tensor.size_bytes, file_bytes)) {
      return make_error(Code::corrupt,
                        "truncated: tensor '{}' needs {} bytes at {} + {}, the file has {}",
                        tensor.name, tensor.size_bytes, data, tensor.offset_bytes, file_bytes);
    }
    tensor.offset_bytes = *offset;
  }
  std::vector<const TensorExtent*> order;
  for (const TensorExtent& tensor : header.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->offset_bytes < b->offset_bytes; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset_bytes + order[i - 1]->size_bytes <= order[i]->offset_bytes) continue;
    return make_error(Code::corrupt, "tensors '{}' and '{}' overlap", order[i - 1]->name,
                      order[i]->name);
  }
  return {};
}

Status read_start(Cursor& cursor) {
  const auto magic = cursor.number<std::uint32_t>();
  const auto version = cursor.number<std::uint32_t>();
  if (!cursor.status()) return cursor.status();
  if (magic != kMagic) return make_error(Code::corrupt, "not a GGUF file");
  if (version == 2 || version == 3) return {};
  return make_error(Code::unsupported, "GGUF version: expected 2 or 3, found {}", version);
}

Result<GgufHeader> read_header(Cursor& cursor, std::uint64_t file_bytes) {
  constexpr std::uint64_t kTensorBytesMin = 32;
  constexpr std::uint64_t kFieldBytesMin = 13;
  ENGRAM_TRY(read_start(cursor));
  const auto tensor_count = cursor.number<std::uint64_t>();
  const auto field_count = cursor.number<std::uint64_t>();
  GgufHeader header;
  if (!cursor.room(tensor_count, kTensorBytesMin, "table of tensors") ||
      !cursor.room(field_count, kFieldBytesMin, "table of keys")) {
    return cursor.status().error();
  }
  for (std::uint64_t i = 0; i < field_count; ++i) {
    const std::string key = cursor.text();
    GgufValue value = read_value(cursor);
    if (!cursor.status()) return with_context(cursor.status().error(), "key '" + key + "'");
    if (!header.metadata.emplace(key, std::move(value)).second) {
      return make_error(Code::corrupt, "key '{}' appears twice", key);
    }
  }
  std::set<std::string, std::less<>> names;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    auto tensor = read_tensor(cursor);
    if (!tensor) return std::move(tensor).error();
    if (!names.insert(tensor->name).second) {
      return make_error(Code::corrupt, "tensor '{}' appears twice", tensor->name);
    }
    header.tensors.push_back(*std::move(tensor));
  }
  ENGRAM_TRY(place_tensors(header, cursor.position(), file_bytes));
  return header;
}

}  // namespace

Result<GgufHeader> read_gguf(const os::ReadableFile& file) {
  Cursor cursor(file);
  auto header = read_header(cursor, file.size_bytes());
  if (!header) return with_context(std::move(header).error(), file.path());
  for (TensorExtent& tensor : header->tensors) {
    tensor.path = file.path();
    tensor.file_bytes = file.size_bytes();
  }
  return header;
}

std::optional<RowFormat> row_format_of_ggml(std::string_view dtype) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const Type& known) { return known.name == dtype; });
  return found == kTypes.end() ? std::nullopt : found->format;
}

GgmlType ggml_type_of(RowFormat format) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const Type& known) { return known.format == format; });
  return {found->id, found->name};
}

}  // namespace engram
