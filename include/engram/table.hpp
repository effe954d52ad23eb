// The paged table: the file form for SSDs and distribution. docs/FORMAT.md has every byte.
//
// Rows lie whole in pages of 4096 bytes that are aligned in the file, so a row is always one
// aligned page read; every page carries its number, its table's identity and a checksum, so a
// torn, stale, misplaced or foreign page is found by the read that uses it. The file is valid
// safetensors: one U8 tensor [pages, 4096], with the table's description in __metadata__.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engram/export.h"
#include "engram/hash.hpp"
#include "engram/status.hpp"
#include "engram/types.hpp"

namespace engram {

inline constexpr std::size_t kPageBytes = 4096;

// The last 16 bytes of a page, little endian.
struct PageTrailer {
  std::uint32_t page_number;  // from 0
  std::uint32_t identity;     // the low half of the table's identity
  std::uint64_t checksum;     // XXH3-64 of the page's first 4088 bytes, seeded with the identity
};
static_assert(sizeof(PageTrailer) == 16);
static_assert(offsetof(PageTrailer, identity) == 4);
static_assert(offsetof(PageTrailer, checksum) == 8);

// Rows of one page; the rest, up to the trailer, is zero. 15 for FP8, 30 for MXFP4.
ENGRAM_API std::size_t rows_per_page(const RowLayout& layout);

// Fills in the trailer of a page whose rows are in place. page [4096].
ENGRAM_API void seal_page(std::span<std::byte> page, std::uint64_t page_number,
                          std::uint64_t identity);

// Code::corrupt says whether the page is foreign, misplaced or damaged; `where` names the file.
ENGRAM_API Status check_page(std::span<const std::byte> page, std::uint64_t page_number,
                             std::uint64_t identity, std::string_view where);

// Everything a paged file says of itself.
struct ENGRAM_API PagedDescription {
  RowLayout layout;
  HashConfig geometry;           // layer_ids holds this table's layer alone
  LayerHash constants;           // row_count is the table's
  std::string token_map_sha256;  // of the map its keys are hashed with
  std::string source;            // what it was made from: identity of the source table

  std::uint64_t page_count() const;
  // Decides every page's trailer; another table, layer, codec or source has another identity.
  std::uint64_t identity() const;

  // __metadata__ of the file.
  std::map<std::string, std::string> to_metadata() const;
  // Code::unsupported for another version; Code::corrupt names the field that is missing, or does
  // not follow from the others.
  static Result<PagedDescription> from_metadata(const std::map<std::string, std::string>& metadata,
                                                std::string_view where);
};

}  // namespace engram
