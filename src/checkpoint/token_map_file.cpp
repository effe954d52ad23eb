// engram_token_map.i32: the map itself, where a model comes without the tokenizer it is made from.
#include "checkpoint/token_map_file.hpp"

#include "os/file.hpp"

namespace engram {

Result<std::vector<CompressedId>> read_token_map_file(const std::string& directory) {
  constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
  const std::string path = directory + "/" + std::string(kTokenMapFileName);
  if (!os::path_exists(path)) return std::vector<CompressedId>();
  return os::read_int32_file(path, kBytesMax, "token map");
}

}  // namespace engram
