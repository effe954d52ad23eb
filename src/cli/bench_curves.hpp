// Hit rates of caches of every size on a corpus, without a table.
#pragma once

#include <string>
#include <vector>

#include "engram/engine.hpp"

namespace engram::cli {

// For caches of 4 MiB to 4 GiB: how many n-grams of each order the library's cache finds, and a
// plain LRU of rows of the same bytes. One line each, or one JSON object; drawn to `svg` where that
// is not empty. Layer by layer the streams are alike, so one layer is simulated.
Status hit_rate_curves(const Engine& engine, const std::vector<std::vector<TokenId>>& documents,
                       bool json, const std::string& svg);

}  // namespace engram::cli
