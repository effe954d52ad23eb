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

inline const std::map<std::string, RowFormat> kRowFormats = {{"fp8", RowFormat::fp8_e4m3_e8m0},
                                                             {"bf16", RowFormat::bf16},
                                                             {"f16", RowFormat::f16},
                                                             {"f32", RowFormat::f32},
                                                             {"int8", RowFormat::int8_f32},
                                                             {"mxfp4", RowFormat::mxfp4},
                                                             {"int4-e4m3", RowFormat::int4_e4m3},
                                                             {"int4-e8m0", RowFormat::int4_e8m0},
                                                             {"int4-f16", RowFormat::int4_f16},
                                                             {"affine", RowFormat::affine}};

inline std::string_view row_format_name(RowFormat format) {
  for (const auto& [name, known] : kRowFormats) {
    if (known == format) return name;
  }
  return "unknown";
}

}  // namespace engram::cli
