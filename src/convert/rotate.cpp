// Folds a rotation of the residual stream into a model's value rows.
#include "engram/convert.hpp"

#include "base/error.hpp"
#include "checkpoint/rotation_file.hpp"
#include "convert/model_plan.hpp"
#include "convert/write_plan.hpp"
#include "gate/rotation.hpp"
#include "os/file.hpp"

namespace engram {

Status rotate(const Checkpoint& source, const std::string& destination,
              const std::string& rotation_path, int threads, const Progress& progress) {
  if (source.config().value_rotated) {
    return make_error(Code::invalid_argument,
                      "{}: its value rows are rotated already (engram_rotation_config)",
                      source.directory());
  }
  if (source.gates().empty()) {
    return make_error(Code::not_found, "{}: no gate weights to rotate: {} missing",
                      source.directory(), source.missing().empty() ? "all" : source.missing()[0]);
  }
  const auto width = static_cast<std::size_t>(source.config().hidden_dim);
  const auto extent = find_rotation(rotation_path, source.config().hidden_dim);
  if (!extent) return extent.error();
  const auto matrix = read_rotation(*extent);
  if (!matrix) return matrix.error();
  const GateRotation rotation = find_rotation_block(*matrix, width);
  if (Status status = check_rotation(rotation, width); !status) {
    return with_context(std::move(status).error(), rotation_path);
  }
  ConvertOptions options;
  options.to = "rotate";
  options.threads = threads;
  options.progress = progress;
  const Target as_it_is{RowFormat::fp8_e4m3_e8m0, Container::official, true};
  auto input = prepare_plan(source, options, as_it_is);
  if (!input) return std::move(input).error();
  input->rotation = &rotation;
  auto plan = plan_safetensors_model(*input);
  if (!plan) return std::move(plan).error();
  constexpr std::uint64_t kRotationBytesMax = std::uint64_t{1} << 30;
  auto text = os::read_text_file(rotation_path, kRotationBytesMax);
  if (!text) return std::move(text).error();
  plan->texts.emplace_back(kRotationPath, *std::move(text));
  return write_plan({*plan, *input}, destination);
}

}  // namespace engram
