// What the formats are called in config files, metadata and on the command line.
#include <algorithm>
#include <array>
#include <string>

#include "engram/types.hpp"

#include "base/error.hpp"

namespace engram {
namespace {

struct Name {
  std::string_view name;
  RowFormat format;
};
// The first name of a format is the one that is written.
constexpr std::array kNames = {
    Name{"fp8", RowFormat::fp8_e4m3_e8m0},
    Name{"mxfp8", RowFormat::fp8_e4m3_e8m0},
    Name{"bf16", RowFormat::bf16},
    Name{"f16", RowFormat::f16},
    Name{"f32", RowFormat::f32},
    Name{"int8", RowFormat::int8_f32},
    Name{"mxfp4", RowFormat::mxfp4},
    Name{"fp4", RowFormat::mxfp4},
    Name{"int4-e4m3", RowFormat::int4_e4m3},
    Name{"int4-e8m0", RowFormat::int4_e8m0},
    Name{"int4-f16", RowFormat::int4_f16},
    Name{"affine", RowFormat::affine},
    Name{"int3-e4m3", RowFormat::int3_e4m3},
    Name{"lloyd4", RowFormat::lloyd4_e5m3},
    Name{"q8_0", RowFormat::q8_0},
    Name{"mxfp4-gguf", RowFormat::mxfp4_block},
    Name{"q6_k", RowFormat::q6_k},
    Name{"q5_k", RowFormat::q5_k},
    Name{"q4_k", RowFormat::q4_k},
    Name{"q3_k", RowFormat::q3_k},
    Name{"q2_k", RowFormat::q2_k},
};

}  // namespace

std::string_view row_format_name(RowFormat format) {
  const auto found = std::find_if(kNames.begin(), kNames.end(),
                                  [&](const Name& known) { return known.format == format; });
  return found == kNames.end() ? std::string_view("unknown") : found->name;
}

Result<RowFormat> row_format_from_name(std::string_view name) {
  std::string known;
  for (const Name& candidate : kNames) {
    if (candidate.name == name) return candidate.format;
    if (row_format_name(candidate.format) == candidate.name) {
      known += (known.empty() ? "" : ", ") + std::string(candidate.name);
    }
  }
  return make_error(Code::unsupported, "table codec '{}': expected one of {}", name, known);
}

}  // namespace engram
