// What a conversion may produce: a row format, and whose files it looks like.
#include "convert/target.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace engram {
namespace {

struct Named {
  std::string_view name;
  Target target;
};
constexpr std::array kTargets = {
    Named{"fp8", {RowFormat::fp8_e4m3_e8m0, Container::official}},
    Named{"row264", {RowFormat::fp8_e4m3_e8m0, Container::gguf_rows}},
    Named{"mxfp8", {RowFormat::fp8_e4m3_e8m0, Container::mlx}},
    Named{"mxfp4", {RowFormat::mxfp4, Container::nvfp4}},
    Named{"bf16", {RowFormat::bf16, Container::ascend}},
    Named{"int8", {RowFormat::int8_f32, Container::ascend}},
    Named{"int4-e4m3", {RowFormat::int4_e4m3, Container::official}},
    Named{"lloyd4", {RowFormat::lloyd4_e5m3, Container::gguf_rows}},
    Named{"q8_0", {RowFormat::q8_0, Container::gguf_blocks}},
    Named{"mxfp4-gguf", {RowFormat::mxfp4_block, Container::gguf_blocks}},
    Named{"f16", {RowFormat::f16, Container::official}},
    Named{"f32", {RowFormat::f32, Container::official}},
};

struct SplitEntry {
  RowFormat format;
  SplitDtypes dtypes;
};
constexpr std::array kSplit = {
    SplitEntry{RowFormat::fp8_e4m3_e8m0, {"F8_E4M3", 1, "F8_E8M0", ""}},
    SplitEntry{RowFormat::bf16, {"BF16", 2, "", ""}},
    SplitEntry{RowFormat::f16, {"F16", 2, "", ""}},
    SplitEntry{RowFormat::f32, {"F32", 4, "", ""}},
    SplitEntry{RowFormat::int8_f32, {"I8", 1, "F32", ""}},
    SplitEntry{RowFormat::mxfp4, {"U8", 1, "F8_E8M0", ""}},
    SplitEntry{RowFormat::int4_e4m3, {"U8", 1, "F8_E4M3", ""}},
    SplitEntry{RowFormat::int4_e8m0, {"U8", 1, "F8_E8M0", ""}},
    SplitEntry{RowFormat::int4_f16, {"U8", 1, "F16", ""}},
    SplitEntry{RowFormat::int3_e4m3, {"U8", 1, "F8_E4M3", ""}},
};
constexpr SplitDtypes kMlxFp8 = {"U32", 4, "U8", ""};
constexpr SplitDtypes kWideAffine = {"U32", 4, "F32", "F32"};
constexpr SplitDtypes kNarrowAffine = {"U32", 4, "BF16", "BF16"};

}  // namespace

Result<Target> parse_target(std::string_view name) {
  constexpr std::string_view kPaged = "paged:";
  if (name == "paged") return Target{RowFormat::fp8_e4m3_e8m0, Container::paged, true};
  if (name.starts_with(kPaged)) {
    const auto format = row_format_from_name(name.substr(kPaged.size()));
    if (!format) return format.error();
    return Target{*format, Container::paged};
  }
  std::string known;
  for (const Named& candidate : kTargets) {
    if (candidate.name == name) return candidate.target;
    known += std::string(candidate.name) + ", ";
  }
  return make_error(Code::invalid_argument,
                    "convert to '{}': expected one of {}paged or paged:CODEC", name, known);
}

const SplitDtypes* split_dtypes(const RowLayout& layout, Container container) {
  if (layout.format == RowFormat::affine) {
    return layout.wide_scales ? &kWideAffine : &kNarrowAffine;
  }
  if (container == Container::mlx) return &kMlxFp8;
  const auto* found = std::find_if(kSplit.begin(), kSplit.end(), [&](const SplitEntry& entry) {
    return entry.format == layout.format;
  });
  return found == kSplit.end() ? nullptr : &found->dtypes;
}

}  // namespace engram
