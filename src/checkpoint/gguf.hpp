// A strict reader of GGUF headers, versions 2 and 3.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

#include "os/file.hpp"

namespace engram {

// Every integer width widens; arrays of strings are checked and skipped.
using GgufValue = std::variant<std::monostate, std::int64_t, double, std::string,
                               std::vector<std::int64_t>, std::vector<double>>;

struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  // Shapes outermost first, dtypes as ggml names them ("Q8_0", "I8"; "type 99" where unknown, with
  // size 0, since other tensors are none of our business).
  std::vector<TensorExtent> tensors;
};

// The header of a file (several raw parts may be open as one). Refused with Code::corrupt: lengths
// beyond the file or 2^30, checked before any allocation; keys or tensors twice; more than four
// dimensions; products of 2^63 and more; rows that are not whole blocks; alignments that are not a
// power of two; tensors unaligned, overlapping or beyond the end. The file need not end padded.
// Source of the rules: ggml's own loader.
Result<GgufHeader> read_gguf(const os::ReadableFile& file);

// The row format whose blocks a ggml type names; nothing for types that are no row format.
std::optional<RowFormat> row_format_of_ggml(std::string_view dtype);
// The other way, for writers: id and name. Requires a format with a ggml type.
struct GgmlType {
  std::uint32_t id;
  std::string_view name;
};
GgmlType ggml_type_of(RowFormat format);

}  // namespace engram
