// The C interface of the token map.
#include "capi/handles.hpp"

using engram::Status;
using engram::TokenMap;
using namespace engram::capi;  // NOLINT(google-build-using-namespace): one file, its own module

extern "C" {

int32_t engram_token_map_open(const char* tokenizer_path, engram_token_map** map) {
  return make_handle(map, [&]() -> engram::Result<TokenMap> {
    if (tokenizer_path == nullptr) return null_argument("tokenizer_path");
    return TokenMap::from_tokenizer_file(tokenizer_path);
  });
}

int32_t engram_token_map_load(const char* path, engram_token_map** map) {
  return make_handle(map, [&]() -> engram::Result<TokenMap> {
    if (path == nullptr) return null_argument("path");
    return TokenMap::load(path);
  });
}

void engram_token_map_free(engram_token_map* map) {
  const std::unique_ptr<engram_token_map> owned(map);
}

int64_t engram_token_map_length(const engram_token_map* map) {
  return map == nullptr ? 0 : static_cast<int64_t>(map->map.ids().size());
}

int64_t engram_token_map_compressed_size(const engram_token_map* map) {
  return map == nullptr ? 0 : map->map.compressed_size();
}

const char* engram_token_map_sha256(const engram_token_map* map) {
  return map == nullptr ? "" : map->map.sha256().c_str();
}

int32_t engram_token_map_compress(const engram_token_map* map, const int32_t* tokens,
                                  const uint8_t* mask, size_t count, int32_t* compressed) {
  return guard([&]() -> Status {
    if (map == nullptr) return null_argument("map");
    const auto in = span_of(tokens, count, "tokens");
    if (!in) return in.error();
    const auto out = span_of(compressed, count, "compressed");
    if (!out) return out.error();
    return map->map.compress(*in, {mask, mask == nullptr ? 0 : count}, *out);
  });
}

}  // extern "C"
