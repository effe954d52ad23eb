// The description of a paged table to and from the metadata of its file.
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "engram/table.hpp"

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "codec/unpack.hpp"

namespace engram {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr std::string_view kFormat = "paged-table";
constexpr std::string_view kVersion = "1";

// Reads fields of metadata; the first failure stays.
class Reader {
 public:
  Reader(const Metadata& metadata, std::string_view where) : metadata_(metadata), where_(where) {}

  std::string text(std::string_view name) {
    const auto found = metadata_.find("engram." + std::string(name));
    if (found != metadata_.end()) return found->second;
    fail(make_error(Code::corrupt, "{}: __metadata__ 'engram.{}' is missing", where_, name));
    return {};
  }

  std::vector<std::uint64_t> numbers(std::string_view name) {
    const std::string list = text(name);
    std::vector<std::uint64_t> result;
    const char* at = list.data();
    const char* const end = at + list.size();
    while (status_) {
      std::uint64_t value = 0;
      const auto [stop, code] = std::from_chars(at, end, value);
      if (code != std::errc() || (stop != end && *stop != ',')) {
        fail(make_error(Code::corrupt,
                        "{}: __metadata__ 'engram.{}': expected whole numbers, found '{}'", where_,
                        name, list));
        break;
      }
      result.push_back(value);
      if (stop == end) break;
      at = stop + 1;
    }
    return result;
  }

  // One number of at most `max`.
  std::uint64_t number(std::string_view name, std::uint64_t max) {
    const auto list = numbers(name);
    if (!status_) return 0;
    if (list.size() == 1 && list[0] <= max) return list[0];
    fail(make_error(Code::corrupt, "{}: __metadata__ 'engram.{}': expected 0..{}, found '{}'",
                    where_, name, max, text(name)));
    return 0;
  }

  void fail(Error error) {
    if (status_) status_ = std::move(error);
  }
  const Status& status() const { return status_; }

 private:
  const Metadata& metadata_;
  std::string_view where_;
  Status status_;
};

RowLayout read_layout(Reader& reader) {
  RowLayout layout;
  const auto format = row_format_from_name(reader.text("codec"));
  if (format) {
    layout.format = *format;
  } else if (reader.status()) {
    reader.fail(format.error());
  }
  layout.head_dim = reader.number("head_dim", 1 << 16);
  if (layout.format == RowFormat::affine) {
    layout.group = reader.number("affine_group", 128);
    layout.bits = reader.number("affine_bits", 8);
    layout.wide_scales = reader.number("affine_wide_scales", 1) != 0;
  }
  return layout;
}

Status check_layout(const RowLayout& layout, std::string_view where) {
  const bool affine = layout.format == RowFormat::affine;
  if ((!affine || is_known_affine(layout.bits, layout.group)) && layout.head_dim != 0 &&
      layout.head_dim % layout.block_columns() == 0 && rows_per_page(layout) != 0) {
    return {};
  }
  return make_error(Code::corrupt, "{}: __metadata__: rows of {} columns of '{}' cannot be paged",
                    where, layout.head_dim, row_format_name(layout.format));
}

}  // namespace

std::uint64_t PagedDescription::page_count() const {
  const std::uint64_t per_page = rows_per_page(layout);
  return (constants.row_count + per_page - 1) / per_page;
}

std::uint64_t PagedDescription::identity() const {
  std::string text;
  for (const auto& [name, value] : to_metadata()) text += fmt::format("{}={}\n", name, value);
  const auto digest = sha256_hex(std::as_bytes(std::span(text)));
  std::uint64_t identity = 0;
  if (digest) std::from_chars(digest->data(), digest->data() + 16, identity, 16);
  return identity;
}

Metadata PagedDescription::to_metadata() const {
  Metadata metadata = {
      {"engram.format", std::string(kFormat)},
      {"engram.version", std::string(kVersion)},
      {"engram.codec", std::string(row_format_name(layout.format))},
      {"engram.head_dim", fmt::to_string(layout.head_dim)},
      {"engram.rows", fmt::to_string(constants.row_count)},
      {"engram.rows_per_page", fmt::to_string(rows_per_page(layout))},
      {"engram.layer_id", fmt::to_string(constants.layer_id)},
      {"engram.max_ngram_size", fmt::to_string(geometry.max_order)},
      {"engram.n_heads", fmt::to_string(geometry.heads)},
      {"engram.vocab_size", fmt::to_string(geometry.first_prime_at_least)},
      {"engram.compressed_vocab_size", fmt::to_string(geometry.compressed_size)},
      {"engram.compressed_pad_id", fmt::to_string(geometry.pad)},
      {"engram.multipliers", fmt::format("{}", fmt::join(constants.multipliers, ","))},
      {"engram.primes", fmt::format("{}", fmt::join(constants.primes, ","))},
      {"engram.offsets", fmt::format("{}", fmt::join(constants.offsets, ","))},
      {"engram.token_map_sha256", token_map_sha256},
      {"engram.source", source},
  };
  if (layout.format == RowFormat::affine) {
    metadata["engram.affine_group"] = fmt::to_string(layout.group);
    metadata["engram.affine_bits"] = fmt::to_string(layout.bits);
    metadata["engram.affine_wide_scales"] = layout.wide_scales ? "1" : "0";
  }
  return metadata;
}

Result<PagedDescription> PagedDescription::from_metadata(const Metadata& metadata,
                                                         std::string_view where) {
  Reader reader(metadata, where);
  const std::string format = reader.text("format");
  const std::string version = reader.text("version");
  if (reader.status() && (format != kFormat || version != kVersion)) {
    return make_error(Code::unsupported, "{}: expected {} version {}, found '{}' version '{}'",
                      where, kFormat, kVersion, format, version);
  }
  PagedDescription found;
  found.layout = read_layout(reader);
  HashConfig& geometry = found.geometry;
  LayerHash& constants = found.constants;
  constexpr std::uint64_t kIntMax = 0x7FFF'FFFF;
  constants.layer_id = static_cast<std::int64_t>(reader.number("layer_id", kIntMax));
  constants.row_count = reader.number("rows", std::uint64_t{1} << 40);
  geometry.layer_ids = {constants.layer_id};
  geometry.max_order = static_cast<int>(reader.number("max_ngram_size", kOrderLimit));
  geometry.heads = static_cast<int>(reader.number("n_heads", 256));
  geometry.first_prime_at_least = static_cast<std::int64_t>(reader.number("vocab_size", kIntMax));
  geometry.compressed_size =
      static_cast<std::int64_t>(reader.number("compressed_vocab_size", kIntMax));
  geometry.pad = static_cast<CompressedId>(reader.number("compressed_pad_id", kIntMax));
  constants.multipliers = reader.numbers("multipliers");
  constants.primes = reader.numbers("primes");
  constants.offsets = reader.numbers("offsets");
  found.token_map_sha256 = reader.text("token_map_sha256");
  found.source = reader.text("source");
  const std::uint64_t per_page = reader.number("rows_per_page", kPageBytes);
  if (!reader.status()) return reader.status().error();
  ENGRAM_TRY(check_layout(found.layout, where));
  if (per_page != rows_per_page(found.layout)) {
    return make_error(Code::corrupt, "{}: __metadata__: expected {} rows per page, found {}", where,
                      rows_per_page(found.layout), per_page);
  }
  return found;
}

}  // namespace engram
