// The sizes of a stored row in every format.
#include <array>

#include "engram/types.hpp"

namespace engram {
namespace {

// `columns` columns take `bytes` bytes of codes; every RowLayout::group of columns has a scale of
// `scale` bytes. Formats whose blocks carry their scales inside have none.
struct Sizes {
  std::size_t columns;
  std::size_t bytes;
  std::size_t scale;
};

// In the order of RowFormat.
constexpr std::array kSizes = {
    Sizes{1, 1, 1},      // fp8_e4m3_e8m0
    Sizes{1, 2, 0},      // bf16
    Sizes{1, 2, 0},      // f16
    Sizes{1, 4, 0},      // f32
    Sizes{1, 1, 4},      // int8_f32
    Sizes{2, 1, 1},      // mxfp4
    Sizes{2, 1, 1},      // int4_e4m3
    Sizes{2, 1, 1},      // int4_e8m0
    Sizes{2, 1, 2},      // int4_f16
    Sizes{8, 0, 0},      // affine: sized by its fields
    Sizes{8, 3, 1},      // int3_e4m3
    Sizes{2, 1, 1},      // lloyd4_e5m3
    Sizes{32, 34, 0},    // q8_0
    Sizes{32, 17, 0},    // mxfp4_block
    Sizes{256, 210, 0},  // q6_k
    Sizes{256, 176, 0},  // q5_k
    Sizes{256, 144, 0},  // q4_k
    Sizes{256, 110, 0},  // q3_k
    Sizes{256, 84, 0},   // q2_k
};
static_assert(kSizes.size() == static_cast<std::size_t>(RowFormat::q2_k) + 1);

constexpr const Sizes& sizes_of(RowFormat format) {
  return kSizes[static_cast<std::size_t>(format)];
}

}  // namespace

std::size_t RowLayout::block_columns() const {
  const Sizes& sizes = sizes_of(format);
  return scale_bytes() != 0 ? group : sizes.columns;
}

std::size_t RowLayout::code_bytes() const {
  if (format == RowFormat::affine) return head_dim * bits / 8;
  const Sizes& sizes = sizes_of(format);
  return head_dim / sizes.columns * sizes.bytes;
}

std::size_t RowLayout::scale_bytes() const {
  const std::size_t groups = head_dim / group;
  if (format == RowFormat::affine) return (wide_scales ? 4 : 2) * groups;
  return sizes_of(format).scale * groups;
}

std::size_t RowLayout::bias_bytes() const {
  return format == RowFormat::affine ? scale_bytes() : 0;
}

}  // namespace engram
