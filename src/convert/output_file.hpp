// One file to be written: its header, its tensors, and the streams that fill them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engram/status.hpp"

#include "convert/safetensors_writer.hpp"

namespace engram {

// Units (rows, or pages) that are made in any order and land at places their number decides.
struct Stream {
  // A unit's bytes are those of its parts, one after another; each part of all units fills a
  // tensor.
  struct Part {
    std::size_t tensor = 0;  // index in OutputFile::tensors
    std::size_t unit_bytes = 0;
  };

  std::uint64_t units = 0;
  std::vector<Part> parts;
  std::size_t input_bytes = 0;             // read to make one unit: for the memory bound
  std::uint64_t units_per_checkpoint = 0;  // how often a journal is written
  // Makes units [first, first + count). Any number of threads may call it at once.
  std::function<Status(std::uint64_t first, std::uint64_t count, std::span<std::byte> out)> produce;

  std::size_t unit_bytes() const {
    std::size_t bytes = 0;
    for (const Part& part : parts) bytes += part.unit_bytes;
    return bytes;
  }
};

struct OutputFile {
  std::string name;
  std::string header;               // the first bytes of the file, written last
  std::vector<TensorPlan> tensors;  // with their offsets
  std::vector<Stream> streams;      // in the order of their tensors
  std::uint64_t file_bytes = 0;
};

}  // namespace engram
