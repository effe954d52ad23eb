// Which format a table's tensors have: by dtype where that is plain, by declaration where not.
#pragma once

#include <optional>
#include <string_view>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

namespace engram {

// A table's tensors as found.
struct TableTensors {
  TensorExtent weight;
  std::optional<TensorExtent> scale;
  std::optional<TensorExtent> bias;
};

// The codec that config.json or the caller declares, where one does.
struct DeclaredFormat {
  std::optional<RowFormat> format;
  std::string_view by;  // "--codec" or the config field, for messages
};

// The layout of rows of `head_dim`, after checking every dtype and shape. Code::unsupported lists
// the formats that fit where several do and nothing is declared; Code::corrupt where a declaration
// contradicts the tensors.
Result<RowLayout> table_layout(const TableTensors& tensors, std::size_t head_dim,
                               const DeclaredFormat& declared);

}  // namespace engram
