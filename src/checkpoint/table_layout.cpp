// Which format a table's tensors have: by dtype where that is plain, by declaration where not.
#include "checkpoint/table_layout.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_checks.hpp"
#include "codec/unpack.hpp"

namespace engram {
namespace {

std::string_view dtype_of(const std::optional<TensorExtent>& tensor) {
  return tensor ? std::string_view(tensor->dtype) : std::string_view("none");
}

bool is_byte(std::string_view dtype) { return dtype == "U8" || dtype == "I8"; }

// MLX affine: the width gives the bits and the scales give the group, so nothing is guessed.
Result<RowLayout> affine_layout(const TableTensors& tensors, std::size_t head_dim) {
  const TensorExtent& weight = tensors.weight;
  RowLayout layout{RowFormat::affine, head_dim};
  layout.bits = 32 * weight.shape[1] / head_dim;
  const std::size_t groups = tensors.scale ? tensors.scale->shape.back() : 0;
  layout.group = groups == 0 ? 0 : head_dim / groups;
  layout.wide_scales = dtype_of(tensors.scale) == "F32";
  if (is_known_affine(layout.bits, layout.group) &&
      layout.bits * head_dim == 32 * weight.shape[1] && head_dim % layout.group == 0 &&
      dtype_of(tensors.scale) == dtype_of(tensors.bias) &&
      (layout.wide_scales || dtype_of(tensors.scale) == "BF16")) {
    return layout;
  }
  return make_error(
      Code::unsupported,
      "{}: '{}': affine of {} bits and groups of {}, scales {} and biases {}: expected "
      "2, 3, 4, 6 or 8 bits, groups of 32, 64 or 128, and both BF16 or both F32",
      weight.path, weight.name, layout.bits, layout.group, dtype_of(tensors.scale),
      dtype_of(tensors.bias));
}

// Formats that the dtypes and the row width allow, whatever is declared.
std::vector<RowFormat> candidates(const TableTensors& tensors, std::size_t head_dim) {
  const std::string_view weight = tensors.weight.dtype;
  const std::string_view scale = dtype_of(tensors.scale);
  const std::uint64_t width = tensors.weight.shape[1];
  if (is_fp8(weight)) return {RowFormat::fp8_e4m3_e8m0};
  if (weight == "BF16" && scale == "none") return {RowFormat::bf16};
  if (weight == "F16" && scale == "none") return {RowFormat::f16};
  if (weight == "F32" && scale == "none") return {RowFormat::f32};
  if (weight == "U32" && tensors.bias) return {RowFormat::affine};
  // MLX mxfp: E4M3 or E2M1 bytes seen as little-endian words.
  if (weight == "U32" && scale == "U8" && width == head_dim / 4) return {RowFormat::fp8_e4m3_e8m0};
  if (weight == "U32" && scale == "U8" && width == head_dim / 8) return {RowFormat::mxfp4};
  if (weight == "I8" && width == head_dim && scale == "F32") return {RowFormat::int8_f32};
  if (weight == "U8" && width == head_dim * 3 / 8 && is_fp8(scale)) return {RowFormat::int3_e4m3};
  if (!is_byte(weight) || width != head_dim / 2) return {};
  if (is_fp8(scale)) return {RowFormat::int4_e4m3};
  if (scale == "F16") return {RowFormat::int4_f16};
  if (is_e8m0(scale)) return {RowFormat::mxfp4, RowFormat::int4_e8m0};
  return {};
}

std::string names_of(const std::vector<RowFormat>& formats) {
  std::vector<std::string_view> names;
  for (const RowFormat format : formats) names.push_back(row_format_name(format));
  return fmt::format("{}", fmt::join(names, ", "));
}

// Rows whose sign convention or number format no dtype tells.
bool needs_declaration(const std::vector<RowFormat>& fitting) {
  return fitting.size() > 1 || fitting.front() == RowFormat::int4_f16 ||
         fitting.front() == RowFormat::int3_e4m3;
}

// What a stranger most likely sees where nothing fits.
std::string_view likely_cause(const TableTensors& tensors) {
  if (tensors.weight.dtype.find("FNUZ") != std::string::npos) {
    return " (FNUZ is another number format, with half the value per code)";
  }
  const bool swapped = is_e8m0(tensors.weight.dtype) && is_fp8(dtype_of(tensors.scale));
  return swapped ? " (weight and scale look swapped)" : "";
}

Result<RowFormat> choose(const TableTensors& tensors, std::size_t head_dim,
                         const DeclaredFormat& declared) {
  const TensorExtent& weight = tensors.weight;
  const auto fitting = candidates(tensors, head_dim);
  if (fitting.empty()) {
    return make_error(Code::unsupported,
                      "{}: '{}': no known table format has dtype {} {} with scale {} and bias {}{}",
                      weight.path, weight.name, weight.dtype, shape_text(weight.shape),
                      dtype_of(tensors.scale), dtype_of(tensors.bias), likely_cause(tensors));
  }
  if (!declared.format && !needs_declaration(fitting)) return fitting.front();
  if (!declared.format) {
    return make_error(
        Code::unsupported,
        "{}: '{}': {} {} with scale {} fits {} and nothing declares which; name it with "
        "--codec",
        weight.path, weight.name, weight.dtype, shape_text(weight.shape), dtype_of(tensors.scale),
        names_of(fitting));
  }
  if (std::find(fitting.begin(), fitting.end(), *declared.format) != fitting.end()) {
    return *declared.format;
  }
  return make_error(Code::corrupt, "{}: '{}': {} declares {}, but {} {} with scale {} is {}",
                    weight.path, weight.name, declared.by, names_of({*declared.format}),
                    weight.dtype, shape_text(weight.shape), dtype_of(tensors.scale),
                    names_of(fitting));
}

}  // namespace

Result<RowLayout> table_layout(const TableTensors& tensors, std::size_t head_dim,
                               const DeclaredFormat& declared) {
  const TensorExtent& weight = tensors.weight;
  const auto format = choose(tensors, head_dim, declared);
  if (!format) return format.error();
  RowLayout layout{*format, head_dim};
  if (*format == RowFormat::affine) {
    const auto affine = affine_layout(tensors, head_dim);
    if (!affine) return affine.error();
    layout = *affine;
  }
  const bool grouped = layout.scale_bytes() != 0 || tensors.scale;
  if (grouped && head_dim % layout.group != 0) {
    return make_error(Code::unsupported, "engram_head_dim {}: {} rows need a multiple of {}",
                      head_dim, names_of({*format}), layout.group);
  }
  const std::uint64_t rows = weight.shape[0];
  const std::uint64_t element_bytes = safetensors_dtype_bits(weight.dtype) / 8;
  ENGRAM_TRY(check_shape(weight, {rows, layout.code_bytes() / element_bytes}));
  if (layout.scale_bytes() != 0) {
    if (!tensors.scale) {
      return make_error(Code::not_found, "{}: '{}': {} rows need a scale tensor; there is none",
                        weight.path, weight.name, names_of({*format}));
    }
    ENGRAM_TRY(check_shape(*tensors.scale, {rows, head_dim / layout.group}));
  }
  if (*format == RowFormat::fp8_e4m3_e8m0 && !is_e8m0(tensors.scale->dtype)) {
    return wrong_dtype(*tensors.scale, "F8_E8M0 or U8");
  }
  if (layout.bias_bytes() != 0) {
    ENGRAM_TRY(check_shape(*tensors.bias, {rows, head_dim / layout.group}));
  }
  return layout;
}

}  // namespace engram
