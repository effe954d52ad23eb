// Token ids to compressed ids (TokenMap), and text to token ids (Tokenizer), from tokenizer.json.
//
// The map folds tokens that differ only in case, accents or white space into one compressed id;
// n-grams are hashed over compressed ids. One wrong entry silently reads other n-grams' memory, so
// a map carries a SHA-256 of all of it, not only its size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engram/export.h"
#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

// SHA-256 of the map of DeepSeek-V4.1-Flash (129,280 ids, 99,092 compressed) as int32 little
// endian. Source: three public ports quote it; docs/ALGORITHM.md section 1.
inline constexpr std::string_view kV41TokenMapSha256 =
    "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481";

// Immutable; any number of threads may use one.
class ENGRAM_API TokenMap {
 public:
  // Builds the map of every id 0 .. length-1 from a Hugging Face tokenizer.json: decode the id
  // alone, fold it, and number the folded strings by first appearance.
  // Reference: inference/engram.py of DeepSeek-V4.1-Flash, token compression.
  // Code::unsupported for a decoder that is neither absent nor ByteLevel; Code::corrupt for ids
  // with holes, doubles or clashing added tokens. Costs about 0.1 s for 129,280 ids.
  static Result<TokenMap> from_tokenizer_file(const std::string& path);
  static Result<TokenMap> from_tokenizer_json(std::string_view json, std::string_view where);

  // Adopts a finished map. Code::corrupt unless it is in first-appearance order:
  // ids[i] is at most one more than every earlier entry, and none is negative.
  static Result<TokenMap> from_ids(std::vector<CompressedId> ids, std::string_view where);

  // A file of int32 little endian, nothing else. save refuses to overwrite.
  static Result<TokenMap> load(const std::string& path);
  Status save(const std::string& path) const;

  // ids [length]: compressed id of every token id.
  std::span<const CompressedId> ids() const { return ids_; }
  // Distinct compressed ids: C in the multiplier bound.
  std::int64_t compressed_size() const { return compressed_size_; }
  // SHA-256 of ids() as int32 little endian, 64 lower-case hexadecimal digits.
  const std::string& sha256() const { return sha256_; }

  // tokens [length], mask [length] or empty (1 text, 0 takes no part) -> out [length]: compressed
  // id, or kDead where the mask is 0; the id there is not looked at, since runtimes put padding and
  // image hashes in its place. Code::out_of_range for any other id outside the map; then `out` is
  // untouched.
  Status compress(std::span<const TokenId> tokens, std::span<const std::uint8_t> mask,
                  std::span<CompressedId> out) const;

 private:
  TokenMap(std::vector<CompressedId> ids, std::int64_t compressed_size, std::string sha256);
  std::vector<CompressedId> ids_;
  std::int64_t compressed_size_;
  std::string sha256_;
};

// Byte-level BPE with the file's own pre-tokenizer and added tokens: for the command line and
// tests; a runtime brings its own token ids. Equal to `tokenizers`
// encode(add_special_tokens=False). Immutable; any number of threads may use one. Movable.
class ENGRAM_API Tokenizer {
 public:
  // Code::unsupported names any component that is not known to be reproduced exactly.
  static Result<Tokenizer> from_file(const std::string& path);
  static Result<Tokenizer> from_json(std::string_view json, std::string_view where);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // UTF-8 in; each ill-formed part counts as U+FFFD, as WHATWG and Python's errors="replace" do.
  Result<std::vector<TokenId>> encode(std::string_view text) const;

  // The bytes a token stands for (ill-formed UTF-8 is possible). Code::out_of_range.
  Result<std::string> decode(TokenId id) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engram
