// NumPy .npy files, the few kinds the command line reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "engram/status.hpp"

namespace engram::cli {

// An array in C order. dtype is NumPy's spelling: "<f4", "<u2", "|u1".
struct NpyArray {
  std::string dtype;
  std::vector<std::size_t> shape;
  std::vector<std::byte> bytes;
};

// Code::corrupt where the file is not a whole .npy; Code::unsupported for other dtypes or orders.
Result<NpyArray> read_npy(const std::string& path);

// Writes front to back under a temporary name; finish() renames it into place.
class NpyWriter {
 public:
  // An empty path: nothing is kept.
  static Result<NpyWriter> create(const std::string& path, const std::string& dtype,
                                  std::span<const std::size_t> shape);
  Status append(std::span<const std::byte> bytes);
  Status finish();

 private:
  NpyWriter(std::string path, std::string partial_path);
  Error failure() const;
  std::string path_;
  std::string partial_path_;
  std::ofstream file_;
};

}  // namespace engram::cli
