// Loads one layer's gate weights from its files and owns them.
#pragma once

#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/gate.hpp"
#include "engram/status.hpp"

#include "os/memory.hpp"

namespace engram {

// Movable; the gate's spans point into the buffers, which do not move.
struct LoadedGate {
  std::vector<os::HugeBuffer> buffers;
  Gate gate;
};

// Weights that are neither FP8 nor bfloat16 (GGUF's) are widened to binary32.
Result<LoadedGate> load_gate(const GateSource& source, const ModelConfig& config,
                             const GateRotation& rotation, int threads);

// The rotation of the residual stream, or none.
Result<GateRotation> load_rotation(const Checkpoint& checkpoint);

}  // namespace engram
