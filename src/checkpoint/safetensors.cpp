// A strict reader of safetensors headers.
#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "base/bytes.hpp"
#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/tensor_checks.hpp"

namespace engram {
namespace {

// The reference implementation's own cap; it bounds what a hostile length can make us allocate.
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
constexpr std::uint64_t kLengthBytes = 8;

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
};
constexpr std::array kDtypes = {
    Dtype{"BOOL", 8},       Dtype{"F4", 4},          Dtype{"F6_E2M3", 6},     Dtype{"F6_E3M2", 6},
    Dtype{"U8", 8},         Dtype{"I8", 8},          Dtype{"F8_E5M2", 8},     Dtype{"F8_E4M3", 8},
    Dtype{"F8_E8M0", 8},    Dtype{"F8_E4M3FNUZ", 8}, Dtype{"F8_E5M2FNUZ", 8}, Dtype{"F8_E4M3FN", 8},
    Dtype{"F8_E8M0FNU", 8}, Dtype{"I16", 16},        Dtype{"U16", 16},        Dtype{"F16", 16},
    Dtype{"BF16", 16},      Dtype{"I32", 32},        Dtype{"U32", 32},        Dtype{"F32", 32},
    Dtype{"C64", 64},       Dtype{"F64", 64},        Dtype{"I64", 64},        Dtype{"U64", 64},
};

Result<std::uint64_t> header_size(const os::ReadableFile& file) {
  if (file.size_bytes() < kLengthBytes) {
    return make_error(Code::corrupt, "truncated: expected at least 8 bytes, found {}",
                      file.size_bytes());
  }
  std::array<std::byte, kLengthBytes> length{};
  ENGRAM_TRY(file.read_at(0, length));
  const auto size = load_le<std::uint64_t>(length.data());
  if (size > kHeaderBytesMax) {
    return make_error(
        Code::corrupt,
        "header length: expected at most {} bytes, found {} (not a safetensors file?)",
        kHeaderBytesMax, size);
  }
  if (!range_fits(kLengthBytes, size, file.size_bytes())) {
    return make_error(Code::corrupt, "truncated: header of {} bytes in a file of {}", size,
                      file.size_bytes());
  }
  return size;
}

Result<std::vector<std::uint64_t>> read_unsigned(JsonElement object, std::string_view name) {
  const auto list = json_require_array(object, name);
  if (!list) return list.error();
  std::vector<std::uint64_t> numbers;
  for (const JsonElement item : *list) {
    std::uint64_t number = 0;
    // Exactly an unsigned integer: no sign, fraction, exponent or rounding through a double.
    if (!item.is_uint64() || item.get(number) != simdjson::SUCCESS) {
      return make_error(Code::corrupt, "'{}': expected whole numbers from 0", name);
    }
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::uint64_t> expected_bytes(const TensorExtent& tensor) {
  const std::uint64_t bits = safetensors_dtype_bits(tensor.dtype);
  if (bits == 0) {
    return make_error(Code::unsupported, "dtype '{}' is not a safetensors dtype", tensor.dtype);
  }
  std::optional<std::uint64_t> total = bits;
  for (const std::uint64_t dim : tensor.shape) {
    total = checked_multiply(*total, dim);
    if (!total) {
      return make_error(Code::corrupt, "shape {} overflows 64 bits", shape_text(tensor.shape));
    }
  }
  if (*total % 8 != 0) {
    return make_error(Code::corrupt, "{} elements of {} bits do not fill whole bytes",
                      *total / bits, bits);
  }
  return *total / 8;
}

// One member of the header; offsets still relative to the payload.
Result<TensorExtent> read_tensor(JsonElement value) {
  const auto object = json_object(value, "tensor");
  if (!object) return object.error();
  ENGRAM_TRY(json_reject_duplicates(*object, "tensor"));
  if (object->size() != 3) {
    return make_error(Code::corrupt, "expected members dtype, shape and data_offsets, found {}",
                      object->size());
  }
  TensorExtent tensor;
  const auto dtype = json_require_string(value, "dtype");
  if (!dtype) return dtype.error();
  tensor.dtype = *dtype;
  auto dims = read_unsigned(value, "shape");
  if (!dims) return std::move(dims).error();
  tensor.shape = *std::move(dims);
  const auto offsets = read_unsigned(value, "data_offsets");
  if (!offsets) return offsets.error();
  if (offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return make_error(Code::corrupt, "data_offsets [{}]: expected a begin and an end after it",
                      fmt::join(*offsets, ", "));
  }
  tensor.offset_bytes = (*offsets)[0];
  tensor.size_bytes = (*offsets)[1] - (*offsets)[0];
  const auto bytes = expected_bytes(tensor);
  if (!bytes) return bytes.error();
  if (*bytes != tensor.size_bytes) {
    return make_error(Code::corrupt, "{} [{}] needs {} bytes, data_offsets give {}", tensor.dtype,
                      fmt::join(tensor.shape, ", "), *bytes, tensor.size_bytes);
  }
  return tensor;
}

// `__metadata__` is a map of strings; MLX writes null.
Status read_metadata(JsonElement value, std::map<std::string, std::string>& metadata) {
  if (value.is_null()) return {};
  const auto object = json_object(value, "__metadata__");
  if (!object) return object.error();
  ENGRAM_TRY(json_reject_duplicates(*object, "__metadata__"));
  for (const auto field : *object) {
    if (!field.value.is_string()) {
      return make_error(Code::corrupt, "__metadata__ '{}': expected a string", field.key);
    }
    metadata.emplace(field.key, field.value.get_string().value_unsafe());
  }
  return {};
}

Result<SafetensorsHeader> read_header(std::string_view text, std::string_view where) {
  if (text.empty() || text.front() != '{') {
    return make_error(Code::corrupt, "{}: header: expected '{{' as its first byte", where);
  }
  const auto document = JsonDocument::parse(text, where);
  if (!document) return with_context(document.error(), "header");
  const auto object = json_object(document->root(), "header");
  if (!object) return with_context(object.error(), where);
  if (Status status = json_reject_duplicates(*object, "header"); !status) {
    return with_context(std::move(status).error(), where);
  }
  SafetensorsHeader header;
  for (const auto field : *object) {
    if (field.key == "__metadata__") {
      if (Status status = read_metadata(field.value, header.metadata); !status) {
        return with_context(std::move(status).error(), where);
      }
      continue;
    }
    auto tensor = read_tensor(field.value);
    if (!tensor) {
      return with_context(std::move(tensor).error(), fmt::format("{}: '{}'", where, field.key));
    }
    tensor->name = field.key;
    header.tensors.push_back(*std::move(tensor));
  }
  return header;
}

// The payload is tiled from its first byte to the file's last.
Status check_tiling(const std::vector<TensorExtent>& tensors, std::uint64_t payload_bytes) {
  std::uint64_t end = 0;
  std::string_view previous = "the header";
  for (const TensorExtent& tensor : tensors) {
    if (tensor.offset_bytes > end) {
      return make_error(Code::corrupt, "hole of {} bytes between {} and '{}'",
                        tensor.offset_bytes - end, previous, tensor.name);
    }
    if (tensor.offset_bytes < end) {
      return make_error(Code::corrupt, "'{}' overlaps {} by {} bytes", tensor.name, previous,
                        end - tensor.offset_bytes);
    }
    end = tensor.offset_bytes + tensor.size_bytes;
    previous = tensor.name;
  }
  if (end > payload_bytes) {
    return make_error(Code::corrupt, "truncated: tensors need {} payload bytes, the file has {}",
                      end, payload_bytes);
  }
  if (end < payload_bytes) {
    return make_error(Code::corrupt, "{} bytes after the last tensor", payload_bytes - end);
  }
  return {};
}

}  // namespace

std::uint64_t safetensors_dtype_bits(std::string_view dtype) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const Dtype& known) { return known.name == dtype; });
  return found == kDtypes.end() ? 0 : found->bits;
}

Result<SafetensorsHeader> read_safetensors(const os::ReadableFile& file) {
  const auto size = header_size(file);
  if (!size) return with_context(size.error(), file.path());
  std::string text(*size, '\0');
  ENGRAM_TRY(file.read_at(kLengthBytes, std::as_writable_bytes(std::span(text))));
  auto header = read_header(text, file.path());
  if (!header) return header;
  std::vector<TensorExtent>& tensors = header->tensors;
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset_bytes, a.size_bytes) < std::tie(b.offset_bytes, b.size_bytes);
  });
  const std::uint64_t payload_begin = kLengthBytes + *size;
  if (Status status = check_tiling(tensors, file.size_bytes() - payload_begin); !status) {
    return with_context(std::move(status).error(), file.path());
  }
  for (TensorExtent& tensor : tensors) {
    tensor.path = file.path();
    tensor.offset_bytes += payload_begin;
    tensor.file_bytes = file.size_bytes();
  }
  return header;
}

}  // namespace engram
