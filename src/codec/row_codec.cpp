// Row formats: how many bytes a row has, and how they become numbers. Knows no files.
#include "codec/row_codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/bfloat16.hpp"
#include "codec/elements.hpp"
#include "codec/row_values.hpp"
#include "codec/unpack.hpp"
#include "simd/fp8.hpp"
#include "simd/half.hpp"
#include "simd/scaled.hpp"

namespace engram {
namespace {

// The most rows handed to a kernel at once: its pointer array lives on the stack.
constexpr std::size_t kBlockRows = 64;

template <typename T>
std::size_t decode_fp8_block(const RowLayout& layout, const std::byte* packed,
                             std::span<std::byte* const> outputs) {
  std::array<T*, kBlockRows> pointers;
  for (std::size_t i = 0; i < outputs.size(); ++i) pointers[i] = reinterpret_cast<T*>(outputs[i]);
  return simd::decode_fp8({reinterpret_cast<const std::uint8_t*>(packed), layout.head_dim},
                          std::span<T* const>(pointers.data(), outputs.size()));
}

// Columns decoded through the stack at once; a multiple of every group size.
constexpr std::size_t kChunkColumns = kUnpackColumns;

bool store_value(float value, float& out) {
  out = value;
  return std::isfinite(value);
}

bool store_value(float value, std::uint16_t& out) {
  out = bfloat16_from_float(value);
  return bfloat16_is_finite(out);
}

// Columns [first, first + count) of one row.
struct Stretch {
  const RowLayout& layout;
  const std::byte* packed;
  std::size_t first;
  std::size_t count;
};

// FP8, or a format that expands to it.
template <typename T>
bool decode_expanded(const Stretch& from, T* out) {
  std::array<std::uint8_t, kChunkColumns + kChunkColumns / simd::kFp8Group> fp8;
  if (from.layout.format == RowFormat::fp8_e4m3_e8m0) {
    const std::byte* scales = from.packed + from.layout.code_bytes() + from.first / simd::kFp8Group;
    std::memcpy(fp8.data(), from.packed + from.first, from.count);
    std::memcpy(fp8.data() + from.count, scales, from.count / simd::kFp8Group);
  } else {
    expand_to_fp8(from.layout, from.packed, from.first, from.count, fp8.data());
  }
  return simd::decode_fp8({fp8.data(), from.count}, std::span<T* const>(&out, 1)) == 1;
}

// One value at a time.
template <typename T>
bool decode_by_definition(const Stretch& from, T* out) {
  std::array<float, kChunkColumns> values;
  decode_values(from.layout, from.packed, from.first, from.count, values.data());
  bool finite = true;
  for (std::size_t i = 0; i < from.count; ++i) finite &= store_value(values[i], out[i]);
  return finite;
}

// Integer codes with a scale per group.
template <typename T>
bool decode_unpacked(const Stretch& from, T* out) {
  UnpackedRow row;
  unpack(from.layout, from.packed, from.first, from.count, row);
  return simd::decode_scaled({row.codes.data(), from.count, row.group, row.zero, row.scales.data(),
                              row.biased ? row.biases.data() : nullptr},
                             out);
}

// Lloyd4: a group has at most sixteen values.
template <typename T>
bool decode_lloyd4(const Stretch& from, T* out) {
  const std::byte* scales = from.packed + from.layout.code_bytes();
  bool finite = true;
  for (std::size_t begin = 0; begin < from.count; begin += from.layout.group) {
    const auto scale = static_cast<std::uint8_t>(scales[(from.first + begin) / from.layout.group]);
    std::array<T, 16> values;
    for (std::uint8_t code = 0; code < 16; ++code) {
      finite &= store_value(lloyd4_value(code, scale), values[code]);
    }
    const std::byte* codes = from.packed + (from.first + begin) / 2;
    for (std::size_t i = 0; i < from.layout.group / 2; ++i) {
      out[begin + 2 * i] = values[std::to_integer<std::size_t>(codes[i] & std::byte{15})];
      out[begin + 2 * i + 1] = values[std::to_integer<std::size_t>(codes[i] >> 4)];
    }
  }
  return finite;
}

// The fast way for a format; where it meets a value that is not finite, the definition decides.
template <typename T>
bool decode_stretch(const Stretch& from, T* out) {
  const RowFormat format = from.layout.format;
  if (format == RowFormat::fp8_e4m3_e8m0 || expands_to_fp8(format))
    return decode_expanded(from, out);
  if (format == RowFormat::lloyd4_e5m3) return decode_lloyd4(from, out);
  const bool fast = unpacks(format) ? decode_unpacked(from, out)
                    : format == RowFormat::f16 && from.count % 16 == 0
                        ? simd::decode_half(from.packed + 2 * from.first, from.count, out)
                        : false;
  return fast || decode_by_definition(from, out);
}

// Returns whether every value is finite.
template <typename T>
bool decode_row(const RowLayout& layout, const std::byte* packed, T* out) {
  bool finite = true;
  for (std::size_t first = 0; first < layout.head_dim; first += kChunkColumns) {
    const std::size_t count = std::min(kChunkColumns, layout.head_dim - first);
    finite &= decode_stretch(Stretch{layout, packed, first, count}, out + first);
  }
  return finite;
}

// An FP8 row whose bytes alone show that every value is finite; false where they do not.
bool fp8_is_plainly_finite(const RowLayout& layout, const std::byte* packed) {
  constexpr std::uint8_t kScaleMax = 246;  // 448 * 2^(246 - 127) is below 2^128
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(packed);
  std::uint8_t largest_code = 0;
  for (std::size_t i = 0; i < layout.head_dim; ++i) {
    largest_code = std::max<std::uint8_t>(largest_code, bytes[i] & 0x7F);
  }
  std::uint8_t largest_scale = 0;
  for (std::size_t i = layout.head_dim; i < layout.row_bytes(); ++i) {
    largest_scale = std::max(largest_scale, bytes[i]);
  }
  return largest_code != 0x7F && largest_scale <= kScaleMax;
}

}  // namespace

bool row_is_finite(const RowLayout& layout, const std::byte* packed) {
  if (layout.format == RowFormat::fp8_e4m3_e8m0 && fp8_is_plainly_finite(layout, packed)) {
    return true;
  }
  std::array<float, kChunkColumns> values;
  bool finite = true;
  for (std::size_t first = 0; first < layout.head_dim; first += kChunkColumns) {
    const std::size_t count = std::min(kChunkColumns, layout.head_dim - first);
    finite &= decode_stretch(Stretch{layout, packed, first, count}, values.data());
  }
  return finite;
}

namespace {

template <typename T>
std::size_t decode_block(const RowLayout& layout, const std::byte* packed,
                         std::span<std::byte* const> outputs) {
  if (layout.format == RowFormat::fp8_e4m3_e8m0) {
    return decode_fp8_block<T>(layout, packed, outputs);
  }
  std::size_t first_bad = outputs.size();
  for (std::size_t row = outputs.size(); row-- > 0;) {
    const std::byte* source = packed + row * layout.row_bytes();
    if (!decode_row(layout, source, reinterpret_cast<T*>(outputs[row]))) first_bad = row;
  }
  return first_bad;
}

// Through binary32, a stretch at a time.
bool decode_half_row(const RowLayout& layout, const std::byte* packed, std::uint16_t* out) {
  std::array<float, kChunkColumns> values;
  bool finite = true;
  for (std::size_t first = 0; first < layout.head_dim; first += kChunkColumns) {
    const std::size_t count = std::min(kChunkColumns, layout.head_dim - first);
    const std::size_t vectors = count / 16 * 16;
    decode_stretch(Stretch{layout, packed, first, count}, values.data());
    finite &= simd::encode_half(values.data(), vectors, out + first);
    for (std::size_t i = vectors; i < count; ++i) {
      out[first + i] = half_from_float(values[i]);
      finite &= (out[first + i] & 0x7FFF) < 0x7C00;
    }
  }
  return finite;
}

std::size_t decode_half_block(const RowLayout& layout, const std::byte* packed,
                              std::span<std::byte* const> outputs) {
  std::size_t first_bad = outputs.size();
  for (std::size_t row = outputs.size(); row-- > 0;) {
    const std::byte* source = packed + row * layout.row_bytes();
    auto* out = reinterpret_cast<std::uint16_t*>(outputs[row]);
    if (!decode_half_row(layout, source, out)) first_bad = row;
  }
  return first_bad;
}

std::size_t copy_block(const RowLayout& layout, const std::byte* packed,
                       std::span<std::byte* const> outputs) {
  std::size_t first_bad = outputs.size();
  for (std::size_t row = outputs.size(); row-- > 0;) {
    const std::byte* source = packed + row * layout.row_bytes();
    if (!row_is_finite(layout, source)) first_bad = row;
    std::memcpy(outputs[row], source, layout.row_bytes());
  }
  return first_bad;
}

std::size_t decode_block(const RowLayout& layout, OutputFormat format, const std::byte* packed,
                         std::span<std::byte* const> outputs) {
  switch (format) {
    case OutputFormat::bf16:
      return decode_block<std::uint16_t>(layout, packed, outputs);
    case OutputFormat::f32:
      return decode_block<float>(layout, packed, outputs);
    case OutputFormat::f16:
      return decode_half_block(layout, packed, outputs);
    case OutputFormat::raw:
      return copy_block(layout, packed, outputs);
  }
  return 0;
}

}  // namespace

std::size_t output_bytes(const RowLayout& layout, OutputFormat format) {
  switch (format) {
    case OutputFormat::bf16:
    case OutputFormat::f16:
      return 2 * layout.head_dim;
    case OutputFormat::f32:
      return 4 * layout.head_dim;
    case OutputFormat::raw:
      return layout.row_bytes();
  }
  return 0;
}

std::size_t output_alignment(OutputFormat format) {
  switch (format) {
    case OutputFormat::bf16:
    case OutputFormat::f16:
      return 2;
    case OutputFormat::f32:
      return 4;
    case OutputFormat::raw:
      return 1;
  }
  return 1;
}

std::size_t decode_rows(const RowLayout& layout, OutputFormat format, const std::byte* packed,
                        std::span<std::byte* const> outputs) {
  std::size_t first_bad = outputs.size();
  for (std::size_t begin = 0; begin < outputs.size(); begin += kBlockRows) {
    const auto block = outputs.subspan(begin, std::min(kBlockRows, outputs.size() - begin));
    const std::size_t bad =
        decode_block(layout, format, packed + begin * layout.row_bytes(), block);
    if (bad < block.size() && first_bad == outputs.size()) first_bad = begin + bad;
  }
  return first_bad;
}

}  // namespace engram
