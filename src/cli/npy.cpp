// NumPy .npy files, the few kinds the command line reads and writes.
#include "cli/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>
#include <optional>

namespace engram::cli {
namespace {

// Reference: numpy.lib.format. Magic, version 1.0, u16 header length, a Python dict literal padded
// with spaces so that the data is 64-aligned, newline.
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPreludeBytes = 10;
constexpr std::size_t kAlignment = 64;

std::size_t item_bytes(std::string_view dtype) {
  if (dtype == "<f4") return 4;
  if (dtype == "<u2") return 2;
  return dtype == "|u1" ? 1 : 0;
}

// The text after "'name':" in the header, up to the end.
std::optional<std::string_view> after_key(std::string_view header, std::string_view name) {
  const std::string quoted = fmt::format("'{}':", name);
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = header.substr(at + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

std::optional<std::vector<std::size_t>> parse_shape(std::string_view text) {
  if (text.empty() || text.front() != '(') return std::nullopt;
  std::vector<std::size_t> shape;
  std::size_t position = 1;
  while (position < text.size() && text[position] != ')') {
    if (text[position] == ' ' || text[position] == ',') {
      ++position;
      continue;
    }
    std::size_t dim = 0;
    const auto [stop, code] =
        std::from_chars(text.data() + position, text.data() + text.size(), dim);
    if (code != std::errc()) return std::nullopt;
    shape.push_back(dim);
    position = static_cast<std::size_t>(stop - text.data());
  }
  if (position == text.size()) return std::nullopt;
  return shape;
}

Result<NpyArray> parse_header(std::string_view header, const std::string& path) {
  NpyArray array;
  const auto descr = after_key(header, "descr");
  const auto order = after_key(header, "fortran_order");
  const auto shape_text = after_key(header, "shape");
  const auto shape = shape_text ? parse_shape(*shape_text) : std::nullopt;
  if (!descr || !order || !shape || descr->size() < 2) {
    return Error{Code::corrupt, 0, fmt::format("{}: not a .npy header: {}", path, header)};
  }
  array.dtype = descr->substr(1, descr->find('\'', 1) - 1);
  array.shape = *shape;
  if (item_bytes(array.dtype) == 0 || !order->starts_with("False")) {
    return Error{Code::unsupported, 0,
                 fmt::format("{}: expected float32 or uint16 in C order, found dtype {}{}", path,
                             array.dtype, order->starts_with("False") ? "" : " in Fortran order")};
  }
  return array;
}

}  // namespace

Result<NpyArray> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Code::not_found, 0, fmt::format("{}: cannot read", path)};
  std::string prelude(kPreludeBytes, '\0');
  file.read(prelude.data(), kPreludeBytes);
  if (!file || !prelude.starts_with(kMagic) || prelude[6] != 1) {
    return Error{Code::corrupt, 0, fmt::format("{}: not a .npy file of version 1", path)};
  }
  std::string header(static_cast<std::uint8_t>(prelude[8]) |
                         static_cast<std::size_t>(static_cast<std::uint8_t>(prelude[9])) << 8,
                     '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (!file) return Error{Code::corrupt, 0, fmt::format("{}: truncated header", path)};
  auto array = parse_header(header, path);
  if (!array) return array;
  std::error_code ignored;
  const std::uint64_t payload =
      std::filesystem::file_size(path, ignored) - kPreludeBytes - header.size();
  std::uint64_t expected = item_bytes(array->dtype);
  for (const std::size_t dim : array->shape) {
    if (__builtin_mul_overflow(expected, dim, &expected)) expected = UINT64_MAX;
  }
  if (payload != expected) {
    return Error{Code::corrupt, 0,
                 fmt::format("{}: {} of shape [{}] needs {} bytes, the file has {}", path,
                             array->dtype, fmt::join(array->shape, ", "), expected, payload)};
  }
  array->bytes.resize(expected);
  file.read(reinterpret_cast<char*>(array->bytes.data()), static_cast<std::streamsize>(expected));
  if (!file) return Error{Code::io, 0, fmt::format("{}: cannot read", path)};
  return array;
}

NpyWriter::NpyWriter(std::string path, std::string partial_path)
    : path_(std::move(path)),
      partial_path_(std::move(partial_path)),
      file_(partial_path_, std::ios::binary | std::ios::trunc) {}

Error NpyWriter::failure() const {
  return Error{Code::io, 0, fmt::format("{}: cannot write", partial_path_)};
}

Result<NpyWriter> NpyWriter::create(const std::string& path, const std::string& dtype,
                                    std::span<const std::size_t> shape) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   dtype, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t unpadded = kPreludeBytes + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  NpyWriter writer(path, path.empty() ? "/dev/null" : path + ".partial");
  writer.file_ << kMagic << '\x01' << '\0' << static_cast<char>(header.size() & 0xFF)
               << static_cast<char>(header.size() >> 8) << header;
  if (!writer.file_) return writer.failure();
  return writer;
}

Status NpyWriter::append(std::span<const std::byte> bytes) {
  file_.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  if (!file_) return failure();
  return {};
}

Status NpyWriter::finish() {
  file_.close();
  if (!file_) return failure();
  if (path_.empty()) return {};
  std::error_code code;
  std::filesystem::rename(partial_path_, path_, code);
  if (code) return Error{Code::io, code.value(), fmt::format("{}: {}", path_, code.message())};
  return {};
}

}  // namespace engram::cli
