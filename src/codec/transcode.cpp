// Rows of one format to rows of another: bytes where the formats allow it, values otherwise.
#include "codec/transcode.hpp"

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "codec/mxfp4_encode.hpp"
#include "codec/row_codec.hpp"
#include "codec/row_encode.hpp"
#include "codec/row_values.hpp"

namespace engram {
namespace {

bool is_mxfp4(RowFormat format) {
  return format == RowFormat::mxfp4 || format == RowFormat::mxfp4_block;
}

// Nibbles of adjacent pairs and one scale byte per 32 -> GGUF blocks, or back.
void permute_mxfp4(const RowLayout& from, const std::byte* in, std::byte* out) {
  const std::size_t groups = from.head_dim / kMxfp4Group;
  const bool to_block = from.format == RowFormat::mxfp4;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::byte* codes = to_block ? in + 16 * group : in + 17 * group + 1;
    std::byte* target = to_block ? out + 17 * group + 1 : out + 16 * group;
    const auto nibble = [&](std::size_t byte, bool high) {
      return codes[byte] >> (high ? 4 : 0) & std::byte{15};
    };
    for (std::size_t i = 0; i < 16; ++i) {
      target[i] = to_block ? nibble(i / 2, i % 2 != 0) | nibble(8 + i / 2, i % 2 != 0) << 4
                           : nibble(2 * i % 16, i >= 8) | nibble(2 * i % 16 + 1, i >= 8) << 4;
    }
    const std::size_t pair_scale = from.head_dim / 2 + group;
    if (to_block) {
      out[17 * group] = in[pair_scale];
    } else {
      out[pair_scale] = in[17 * group];
    }
  }
}

}  // namespace

Transcoder::Transcoder(const RowLayout& from, const RowLayout& to, const Mxfp4Rule& rule)
    : from_(from), to_(to), rule_(rule), way_(Way::quantise) {
  if (from == to) {
    way_ = Way::copy;
  } else if (is_mxfp4(from.format) && is_mxfp4(to.format)) {
    way_ = Way::permute;
  } else if (to.format == RowFormat::fp8_e4m3_e8m0 && expands_to_fp8(from.format)) {
    way_ = Way::expand;
  } else if (to.format == RowFormat::bf16 || to.format == RowFormat::f32) {
    way_ = Way::decode;
  } else if (to.format == RowFormat::mxfp4 && from.format == RowFormat::fp8_e4m3_e8m0) {
    way_ = Way::mxfp4_table;
    tables_ = make_mxfp4_tables(rule);
  }
}

Result<Transcoder> Transcoder::create(const RowLayout& from, const RowLayout& to,
                                      const Mxfp4Rule& rule) {
  if (from != to && !can_encode(to.format)) {
    return make_error(Code::unsupported, "rows of this format can be read, not written");
  }
  if (from.head_dim != to.head_dim || to.head_dim % to.block_columns() != 0) {
    return make_error(Code::unsupported, "rows of {} columns do not fill blocks of {}",
                      from.head_dim, to.block_columns());
  }
  return Transcoder(from, to, rule);
}

bool Transcoder::quantise_row(const std::byte* packed, std::byte* out) const {
  std::vector<float> values(from_.head_dim);
  const std::array<std::byte*, 1> place = {reinterpret_cast<std::byte*>(values.data())};
  if (decode_rows(from_, OutputFormat::f32, packed, place) != 1) return false;
  encode_row(to_, rule_, values, out);
  return true;
}

bool Transcoder::run_row(const std::byte* packed, std::byte* out) const {
  switch (way_) {
    case Way::copy:
      std::memcpy(out, packed, from_.row_bytes());
      return row_is_finite(from_, packed);
    case Way::permute:
      permute_mxfp4(from_, packed, out);
      return row_is_finite(from_, packed);
    case Way::expand:
      expand_to_fp8(from_, packed, 0, from_.head_dim, reinterpret_cast<std::uint8_t*>(out));
      return row_is_finite(from_, packed);
    case Way::decode: {
      const std::array<std::byte*, 1> place = {out};
      return decode_rows(from_,
                         to_.format == RowFormat::bf16 ? OutputFormat::bf16 : OutputFormat::f32,
                         packed, place) == 1;
    }
    case Way::mxfp4_table:
      return simd::mxfp4_from_fp8(reinterpret_cast<const std::uint8_t*>(packed), from_.head_dim,
                                  *tables_, reinterpret_cast<std::uint8_t*>(out)) ||
             quantise_row(packed, out);
    case Way::quantise:
      return quantise_row(packed, out);
  }
  return false;
}

std::size_t Transcoder::run(const std::byte* packed, std::size_t count, std::byte* out) const {
  for (std::size_t row = 0; row < count; ++row) {
    if (!run_row(packed + row * from_.row_bytes(), out + row * to_.row_bytes())) return row;
  }
  return count;
}

}  // namespace engram
