// How enumerations are spelled on the command line.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engram/types.hpp"

namespace engram::cli {

inline const std::map<std::string, Tier> kTiers = {{"mmap", Tier::mmap}, {"ram", Tier::ram}};
inline const std::map<std::string, OutputFormat> kOutputFormats = {
    {"f32", OutputFormat::f32}, {"bf16", OutputFormat::bf16}, {"raw", OutputFormat::raw}};
inline const std::map<std::string, NanPolicy> kNanPolicies = {{"propagate", NanPolicy::propagate},
                                                              {"reject", NanPolicy::reject}};

inline std::string_view row_format_name(RowFormat format) {
  return format == RowFormat::bf16 ? "bf16" : "fp8_e4m3_e8m0";
}

}  // namespace engram::cli
