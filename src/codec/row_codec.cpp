// Row formats: how many bytes a row has, and how they become numbers. Knows no files.
#include "codec/row_codec.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bfloat16.hpp"
#include "base/bytes.hpp"
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

// Up to this scale byte no code overflows: 448 * 2^(246 - 127) < 2^128.
constexpr std::uint8_t kScaleNeverOverflows = 246;

bool fp8_row_is_finite(const RowLayout& layout, const std::byte* packed) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(packed);
  const std::uint8_t* scales = codes + layout.head_dim;
  bool bad = false;
  for (std::size_t i = 0; i < layout.head_dim; ++i) bad |= (codes[i] & 0x7F) == 0x7F;
  for (std::size_t i = 0; i < layout.head_dim; i += simd::kFp8Group) {
    const std::uint8_t scale = scales[i / simd::kFp8Group];
    for (std::size_t j = i; scale > kScaleNeverOverflows && j < i + simd::kFp8Group; ++j) {
      bad |= (simd::fp8_value_bits(codes[j], scale) & 0x7F80'0000) == 0x7F80'0000;
    }
  }
  return !bad;
}

bool bfloat16_row_is_finite(const RowLayout& layout, const std::byte* packed) {
  bool finite = true;
  for (std::size_t i = 0; i < layout.head_dim; ++i) {
    finite = finite && bfloat16_is_finite(load_le<std::uint16_t>(packed + 2 * i));
  }
  return finite;
}

bool row_is_finite(const RowLayout& layout, const std::byte* packed) {
  return layout.format == RowFormat::bf16 ? bfloat16_row_is_finite(layout, packed)
                                          : fp8_row_is_finite(layout, packed);
}

void copy_row(const RowLayout& layout, OutputFormat format, const std::byte* packed,
              std::byte* out) {
  if (format != OutputFormat::f32) {
    std::memcpy(out, packed, layout.row_bytes());  // raw, or bfloat16 stored as bfloat16
    return;
  }
  for (std::size_t i = 0; i < layout.head_dim; ++i) {
    store_le(out + 4 * i, float_from_bfloat16(load_le<std::uint16_t>(packed + 2 * i)));
  }
}

std::size_t decode_block(const RowLayout& layout, OutputFormat format, const std::byte* packed,
                         std::span<std::byte* const> outputs) {
  if (layout.format == RowFormat::fp8_e4m3_e8m0 && format == OutputFormat::bf16) {
    return decode_fp8_block<std::uint16_t>(layout, packed, outputs);
  }
  if (layout.format == RowFormat::fp8_e4m3_e8m0 && format == OutputFormat::f32) {
    return decode_fp8_block<float>(layout, packed, outputs);
  }
  std::size_t first_bad = outputs.size();
  for (std::size_t row = outputs.size(); row-- > 0;) {
    const std::byte* source = packed + row * layout.row_bytes();
    if (!row_is_finite(layout, source)) first_bad = row;
    copy_row(layout, format, source, outputs[row]);
  }
  return first_bad;
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
