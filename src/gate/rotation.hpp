// Rotations of the residual stream: one orthogonal block, repeated along the diagonal.
#pragma once

#include <cstddef>
#include <span>

#include "engram/gate.hpp"
#include "engram/status.hpp"

namespace engram {

// Code::invalid_argument where the block does not divide `width` or its matrix is not square;
// Code::corrupt where it is not orthogonal: Q^T Q does not keep sign vectors within 1e-2.
Status check_rotation(const GateRotation& rotation, std::size_t width);

// out = x Q^T; x, out [width]. Each sum runs in order, in binary32.
void multiply_transposed(const GateRotation& rotation, std::span<const float> x,
                         std::span<float> out);

// The smallest block whose repetition along the diagonal is `matrix` [width, width], exactly.
GateRotation find_rotation_block(std::span<const float> matrix, std::size_t width);

}  // namespace engram
