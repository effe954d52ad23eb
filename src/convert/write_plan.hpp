// Carries out a plan: every file under a journal, then a manifest, then the directory's name.
#pragma once

#include <string>

#include "engram/status.hpp"

#include "convert/model_plan.hpp"

namespace engram {

struct WriteJob {
  const ModelPlan& plan;
  const PlanInput& input;
};

// Errors as convert() gives them.
Status write_plan(const WriteJob& job, const std::string& destination);

}  // namespace engram
