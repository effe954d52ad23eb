// The C interface's errors, versions and argument checks.
#include <string>

#include "capi/handles.hpp"

namespace engram::capi {
namespace {

// A thread's own; empty until its first failure.
std::string& last_error() noexcept {
  thread_local std::string message;
  return message;
}

}  // namespace

std::int32_t fail(Code code, const char* message) noexcept {
  try {
    last_error() = message;
  } catch (const std::bad_alloc&) {
    last_error().clear();
  }
  return static_cast<std::int32_t>(code);
}

std::int32_t fail(const Error& error) noexcept { return fail(error.code, error.message.c_str()); }

Error null_argument(const char* name) {
  return Error{Code::invalid_argument, 0, std::string(name) + " is NULL"};
}

Result<const Memory*> tables_of(const engram_model* model) {
  if (model == nullptr) return null_argument("model");
  if (const Memory* memory = model->engine.memory()) return memory;
  return Error{Code::unavailable, 0, "the model was opened without tables"};
}

Result<Priority> priority_of(std::int32_t priority) {
  if (priority >= ENGRAM_PRIORITY_NOW && priority <= ENGRAM_PRIORITY_WHENEVER) {
    return static_cast<Priority>(priority);
  }
  return Error{Code::invalid_argument, 0,
               "priority: expected 0, 1 or 2, found " + std::to_string(priority)};
}

Result<RowOutput> row_output(const engram_row_output* output) {
  if (output == nullptr) return null_argument("output");
  if (output->struct_bytes < sizeof(engram_row_output)) {
    return Error{Code::invalid_argument, 0,
                 "output.struct_bytes: expected " + std::to_string(sizeof(engram_row_output)) +
                     ", found " + std::to_string(output->struct_bytes)};
  }
  const auto bytes =
      span_of(static_cast<std::byte*>(output->data), output->data_bytes, "output.data");
  if (!bytes) return bytes.error();
  switch (output->format) {
    case ENGRAM_FORMAT_BF16:
      return RowOutput{OutputFormat::bf16, *bytes, output->stride_bytes};
    case ENGRAM_FORMAT_F32:
      return RowOutput{OutputFormat::f32, *bytes, output->stride_bytes};
    case ENGRAM_FORMAT_RAW:
      return RowOutput{OutputFormat::raw, *bytes, output->stride_bytes};
    case ENGRAM_FORMAT_F16:
      return RowOutput{OutputFormat::f16, *bytes, output->stride_bytes};
    default:
      break;
  }
  return Error{Code::invalid_argument, 0,
               "output.format: expected 0 .. 3, found " + std::to_string(output->format)};
}

}  // namespace engram::capi

// Layouts that callers have compiled in; they grow at the end only.
static_assert(sizeof(engram_model_options) == 96 && sizeof(engram_model_info) == 28 &&
              sizeof(engram_layer_info) == 24 && sizeof(engram_row_output) == 32 &&
              sizeof(engram_table_stats) == 56);
static_assert(ENGRAM_PRIORITY_WHENEVER == static_cast<int>(engram::Priority::whenever));
static_assert(ENGRAM_INTERNAL == static_cast<int>(engram::Code::internal) &&
              ENGRAM_CORRUPT == static_cast<int>(engram::Code::corrupt));

extern "C" {

uint32_t engram_abi_version(void) { return ENGRAM_ABI_VERSION; }

const char* engram_last_error(void) { return engram::capi::last_error().c_str(); }

const char* engram_code_name(int32_t code) {
  return engram::code_name(static_cast<engram::Code>(code)).data();
}

}  // extern "C"
