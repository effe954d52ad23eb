// Pages: where rows lie in one, sealing it, and checking it.
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engram/table.hpp"

#include "base/error.hpp"

namespace engram {
namespace {

constexpr std::size_t kTrailerAt = kPageBytes - sizeof(PageTrailer);
constexpr std::size_t kChecksumAt = kTrailerAt + offsetof(PageTrailer, checksum);

std::uint64_t checksum(std::span<const std::byte> page, std::uint64_t identity) {
  return XXH3_64bits_withSeed(page.data(), kChecksumAt, identity);
}

}  // namespace

std::size_t rows_per_page(const RowLayout& layout) { return kTrailerAt / layout.row_bytes(); }

void seal_page(std::span<std::byte> page, std::uint64_t page_number, std::uint64_t identity) {
  PageTrailer trailer{static_cast<std::uint32_t>(page_number), static_cast<std::uint32_t>(identity),
                      0};
  std::memcpy(page.data() + kTrailerAt, &trailer, sizeof(trailer));
  trailer.checksum = checksum(page, identity);
  std::memcpy(page.data() + kTrailerAt, &trailer, sizeof(trailer));
}

Status check_page(std::span<const std::byte> page, std::uint64_t page_number,
                  std::uint64_t identity, std::string_view where) {
  PageTrailer trailer;
  std::memcpy(&trailer, page.data() + kTrailerAt, sizeof(trailer));
  const std::uint64_t found = checksum(page, identity);
  if (found == trailer.checksum && trailer.page_number == page_number) return {};
  if (trailer.identity != static_cast<std::uint32_t>(identity)) {
    return make_error(Code::corrupt,
                      "{}: page {}: of another table: expected identity {:08x}, found {:08x}",
                      where, page_number, static_cast<std::uint32_t>(identity), trailer.identity);
  }
  if (found == trailer.checksum) {
    return make_error(Code::corrupt, "{}: page {}: misplaced: it says it is page {}", where,
                      page_number, trailer.page_number);
  }
  return make_error(Code::corrupt, "{}: page {}: damaged: expected checksum {:016x}, found {:016x}",
                    where, page_number, trailer.checksum, found);
}

}  // namespace engram
