// Streams of gate weights: copied as they lie, or widened and narrowed where that loses nothing.
#pragma once

#include <optional>

#include "engram/checkpoint.hpp"
#include "engram/gate.hpp"
#include "engram/status.hpp"

#include "convert/output_file.hpp"

namespace engram {

// The bytes of a tensor as they lie, one unit per row of it.
Result<Stream> copy_stream(const TensorExtent& tensor, std::size_t target);

// A matrix of gate weights in another number format: wkv (with its tile scales where it is FP8), or
// a norm. Rows are units. While it runs, a value that the format cannot hold exactly is
// Code::unsupported, naming it. `format` is bf16, f16 or f32.
Result<Stream> number_stream(const TensorExtent& tensor, const std::optional<TensorExtent>& scale,
                             RowFormat format, std::size_t target);

// wkv with Q^T folded into its last `value_rows` rows, as bfloat16: those rows become the products
// sum_j Q[j, r] * V[j] of a block, in binary32 and order of j; the others must be exact.
Result<Stream> rotated_stream(const GateSource& gate, const GateRotation& rotation,
                              std::uint64_t value_rows, std::size_t target);

}  // namespace engram
