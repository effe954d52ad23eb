// Row formats: how many bytes a row has, and how they become numbers. Knows no files.
#include "codec/row_codec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/bfloat16.hpp"
#include "codec/row_values.hpp"
#include "simd/fp8.hpp"

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
constexpr std::size_t kChunkColumns = 256;

bool store_value(float value, float& out) {
  out = value;
  return std::isfinite(value);
}

bool store_value(float value, std::uint16_t& out) {
  out = bfloat16_from_float(value);
  return bfloat16_is_finite(out);
}

// Columns [first, first + count) of a row whose format expands to FP8.
template <typename T>
bool decode_expanded(const RowLayout& layout, const std::byte* packed, std::size_t first,
                     std::size_t count, T* out) {
  std::array<std::uint8_t, kChunkColumns + kChunkColumns / simd::kFp8Group> fp8;
  expand_to_fp8(layout, packed, first, count, fp8.data());
  return simd::decode_fp8({fp8.data(), count}, std::span<T* const>(&out, 1)) == 1;
}

// The same of any other format.
template <typename T>
bool decode_by_definition(const RowLayout& layout, const std::byte* packed, std::size_t first,
                          std::size_t count, T* out) {
  std::array<float, kChunkColumns> values;
  decode_values(layout, packed, first, count, values.data());
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i) finite &= store_value(values[i], out[i]);
  return finite;
}

// Returns whether every value is finite.
template <typename T>
bool decode_row(const RowLayout& layout, const std::byte* packed, T* out) {
  const bool expands = expands_to_fp8(layout.format);
  bool finite = true;
  for (std::size_t first = 0; first < layout.head_dim; first += kChunkColumns) {
    const std::size_t count = std::min(kChunkColumns, layout.head_dim - first);
    finite &= expands ? decode_expanded(layout, packed, first, count, out + first)
                      : decode_by_definition(layout, packed, first, count, out + first);
  }
  return finite;
}

// Whether a row that is copied, not decoded, holds finite values only.
bool row_is_finite(const RowLayout& layout, const std::byte* packed) {
  std::array<float, kChunkColumns> values;
  bool finite = true;
  for (std::size_t first = 0; first < layout.head_dim; first += kChunkColumns) {
    const std::size_t count = std::min(kChunkColumns, layout.head_dim - first);
    finite &= expands_to_fp8(layout.format)
                  ? decode_expanded(layout, packed, first, count, values.data())
                  : decode_by_definition(layout, packed, first, count, values.data());
  }
  return finite;
}

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
    case OutputFormat::raw:
      return copy_block(layout, packed, outputs);
  }
  return 0;
}

}  // namespace

std::size_t output_bytes(const RowLayout& layout, OutputFormat format) {
  switch (format) {
    case OutputFormat::bf16:
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
