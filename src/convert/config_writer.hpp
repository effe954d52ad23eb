// config.json of a model that has none: the fields that Engram needs, as the release spells them.
#pragma once

#include <string>

#include "engram/checkpoint.hpp"

namespace engram {

std::string model_config_json(const ModelConfig& config);

}  // namespace engram
