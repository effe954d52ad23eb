// engram_token_map.i32: the map itself, where a model comes without the tokenizer it is made from.
#include "checkpoint/token_map_file.hpp"

#include <cstring>

#include "base/error.hpp"
#include "os/file.hpp"

namespace engram {

Result<std::vector<CompressedId>> read_token_map_file(const std::string& directory) {
  constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
  const std::string path = directory + "/" + std::string(kTokenMapFileName);
  if (!os::path_exists(path)) return std::vector<CompressedId>();
  const auto bytes = os::read_text_file(path, kBytesMax);
  if (!bytes) return bytes.error();
  if (bytes->size() % sizeof(CompressedId) != 0) {
    return make_error(Code::corrupt, "{}: token map: expected a multiple of 4 bytes, found {}",
                      path, bytes->size());
  }
  std::vector<CompressedId> ids(bytes->size() / sizeof(CompressedId));
  std::memcpy(ids.data(), bytes->data(), bytes->size());
  return ids;
}

}  // namespace engram
