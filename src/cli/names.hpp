// How enumerations are spelled on the command line.
#pragma once

#include <map>
#include <string>

#include "engram/types.hpp"

namespace engram::cli {

// And "shared:NAME", "sharded", "sharded:TIER".
inline const std::map<std::string, Tier> kTiers = {
    {"mmap", Tier::mmap}, {"ram", Tier::ram}, {"direct", Tier::direct}, {"auto", Tier::automatic}};
inline const std::map<std::string, ReadMethod> kReadMethods = {{"auto", ReadMethod::automatic},
                                                               {"uring", ReadMethod::uring},
                                                               {"readahead", ReadMethod::readahead},
                                                               {"threads", ReadMethod::threads}};
inline const std::map<std::string, HugePages> kHugePages = {{"transparent", HugePages::transparent},
                                                            {"2m", HugePages::reserved_2m},
                                                            {"1g", HugePages::reserved_1g}};
inline const std::map<std::string, NumaPolicy> kNumaPolicies = {
    {"local", NumaPolicy::local},
    {"interleave", NumaPolicy::interleave},
    {"copies", NumaPolicy::copies}};
inline const std::map<std::string, OutputFormat> kOutputFormats = {{"f32", OutputFormat::f32},
                                                                   {"bf16", OutputFormat::bf16},
                                                                   {"f16", OutputFormat::f16},
                                                                   {"raw", OutputFormat::raw}};
inline const std::map<std::string, Partition> kPartitions = {
    {"rows", Partition::rows},
    {"heads", Partition::heads},
    {"strided", Partition::strided},
    {"layer-order", Partition::layer_order}};
inline const std::map<std::string, NanPolicy> kNanPolicies = {{"propagate", NanPolicy::propagate},
                                                              {"reject", NanPolicy::reject}};

}  // namespace engram::cli
