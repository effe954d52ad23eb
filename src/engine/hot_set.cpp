// Files of hot n-grams.
#include <array>

#include "engram/engine.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

constexpr std::string_view kMagic = "ENGRHOT1";
constexpr std::size_t kDigestBytes = 64;
constexpr std::size_t kHeadBytes = 8 + kDigestBytes + 8;
constexpr std::size_t kEntryBytes = 16;
constexpr std::uint64_t kSizeMax = std::uint64_t{4} << 30;

template <typename T>
void append(std::string& bytes, T value) {
  std::array<std::byte, sizeof(T)> raw{};
  store_le(raw.data(), value);
  bytes.append(reinterpret_cast<const char*>(raw.data()), raw.size());
}

Result<std::string> sha256_of(std::string_view bytes) {
  return sha256_hex(std::as_bytes(std::span(bytes)));
}

// Everything that decides which rows a key has.
Result<std::string> addressing_of(const Engine& engine) {
  std::string text = engine.token_map().sha256();
  for (const LayerHash& layer : engine.hasher().spec().layers()) {
    text += fmt::format(" {}: {} / {}", layer.layer_id, fmt::join(layer.multipliers, " "),
                        fmt::join(layer.primes, " "));
  }
  return sha256_of(text);
}

}  // namespace

Status write_hot_set(const std::string& path, const Engine& engine,
                     std::span<const TableNgram> ngrams) {
  const auto addressing = addressing_of(engine);
  if (!addressing) return addressing.error();
  std::string bytes = std::string(kMagic) + *addressing;
  append(bytes, static_cast<std::uint64_t>(ngrams.size()));
  for (const TableNgram& ngram : ngrams) {
    append(bytes, ngram.key);
    append(bytes, static_cast<std::uint32_t>(ngram.table_index));
    append(bytes, static_cast<std::uint32_t>(ngram.order));
  }
  const auto check = sha256_of(bytes);
  if (!check) return check.error();
  return os::write_text_file(path, bytes + *check);
}

Result<std::vector<TableNgram>> read_hot_set(const std::string& path, const Engine& engine) {
  const auto bytes = os::read_text_file(path, kSizeMax);
  if (!bytes) return bytes.error();
  if (!bytes->starts_with(kMagic) || bytes->size() < kHeadBytes + kDigestBytes) {
    return make_error(Code::corrupt, "{}: not a file of hot n-grams", path);
  }
  const auto* raw = reinterpret_cast<const std::byte*>(bytes->data());
  const auto count = load_le<std::uint64_t>(raw + 8 + kDigestBytes);
  const std::size_t room = bytes->size() - kHeadBytes - kDigestBytes;
  if (room % kEntryBytes != 0 || count != room / kEntryBytes) {
    return make_error(Code::corrupt, "{}: truncated: expected {} n-grams, found bytes for {}", path,
                      count, room / kEntryBytes);
  }
  const std::string_view all = *bytes;
  const auto check = sha256_of(all.substr(0, all.size() - kDigestBytes));
  const auto addressing = addressing_of(engine);
  if (!check) return check.error();
  if (!addressing) return addressing.error();
  if (all.substr(all.size() - kDigestBytes) != *check) {
    return make_error(Code::corrupt, "{}: damaged: its SHA-256 is {}", path, *check);
  }
  if (all.substr(kMagic.size(), kDigestBytes) != *addressing) {
    return make_error(Code::corrupt, "{}: of a model with another token map or other primes", path);
  }
  std::vector<TableNgram> ngrams(static_cast<std::size_t>(count));
  const std::byte* entry = raw + kHeadBytes;
  for (TableNgram& ngram : ngrams) {
    ngram.key = load_le<std::uint64_t>(entry);
    ngram.table_index = static_cast<std::int32_t>(load_le<std::uint32_t>(entry + 8));
    ngram.order = static_cast<std::int32_t>(load_le<std::uint32_t>(entry + 12));
    entry += kEntryBytes;
  }
  return ngrams;
}

}  // namespace engram
