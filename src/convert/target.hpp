// What a conversion may produce: a row format, and whose files it looks like.
#pragma once

#include <string>
#include <string_view>

#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

enum class Container : std::uint8_t {
  official,     // the release's shards: codes, scales and gate weights of a layer in one file
  nvfp4,        // the same with NVIDIA's declaration in config.json
  mlx,          // oMLX: words of codes, scales and gate weights under language_model.
  ascend,       // vllm-ascend: whole tables in files of their own, wkv in bfloat16
  gguf_rows,    // ds4's dialect: rows with their scales inside, encoding named
  gguf_blocks,  // llama.cpp's dialect: tables of a ggml type
  paged,        // docs/FORMAT.md
};

struct Target {
  RowFormat format;
  Container container;
  bool keep = false;  // rows stay as they are, whatever `format` says
};

// "fp8", "row264", "mxfp8", "mxfp4", "bf16", "int8", "int4-e4m3", "lloyd4", "q8_0", "mxfp4-gguf",
// "f16", "f32", "paged" (rows as they are) and "paged:" before a codec name.
// Code::invalid_argument lists them.
Result<Target> parse_target(std::string_view name);

// dtypes that safetensors gives the tensors of a format, and bytes of one element of its weight.
// Null where a format's rows cannot be split into tensors.
struct SplitDtypes {
  std::string_view weight;
  std::size_t weight_bytes;
  std::string_view scale;  // empty: no such tensor
  std::string_view bias;
};
const SplitDtypes* split_dtypes(const RowLayout& layout, Container container);

}  // namespace engram
