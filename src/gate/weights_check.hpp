// Refuses gate weights that are not numbers.
#pragma once

#include "engram/gate.hpp"
#include "engram/status.hpp"

namespace engram {

// Every byte count as the shape says, no NaN anywhere, FP8 tile scales inside the kernel's range.
Status check_gate_tensors(const GateShape& shape, const GateTensors& tensors, int threads);

}  // namespace engram
