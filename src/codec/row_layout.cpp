// The sizes of a stored row in every format.
#include "engram/types.hpp"

namespace engram {

std::size_t RowLayout::code_bytes() const {
  switch (format) {
    case RowFormat::fp8_e4m3_e8m0:
    case RowFormat::int8_f32:
      return head_dim;
    case RowFormat::bf16:
    case RowFormat::f16:
      return 2 * head_dim;
    case RowFormat::f32:
      return 4 * head_dim;
    case RowFormat::mxfp4:
    case RowFormat::int4_e4m3:
    case RowFormat::int4_e8m0:
    case RowFormat::int4_f16:
      return head_dim / 2;
    case RowFormat::affine:
      return head_dim * bits / 8;
  }
  return 0;
}

std::size_t RowLayout::scale_bytes() const {
  switch (format) {
    case RowFormat::bf16:
    case RowFormat::f16:
    case RowFormat::f32:
      return 0;
    case RowFormat::fp8_e4m3_e8m0:
    case RowFormat::mxfp4:
    case RowFormat::int4_e4m3:
    case RowFormat::int4_e8m0:
      return head_dim / group;
    case RowFormat::int4_f16:
      return 2 * (head_dim / group);
    case RowFormat::int8_f32:
      return 4 * (head_dim / group);
    case RowFormat::affine:
      return (wide_scales ? 4 : 2) * (head_dim / group);
  }
  return 0;
}

std::size_t RowLayout::bias_bytes() const {
  return format == RowFormat::affine ? scale_bytes() : 0;
}

}  // namespace engram
