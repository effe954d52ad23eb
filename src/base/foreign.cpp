// What people have in the place of a model's file, recognised by its first bytes.
#include "base/foreign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace engram {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  std::string_view sentence;
};

// Longer signatures before those that they begin with. Sources: the formats' own documents, as
// file(1) has them; HTML, pickles and pointers have rules of their own below.
constexpr std::array kSignatures = {
    Signature{"\x1F\x8B\x08"sv, "a gzip file: unpack it with gunzip"},
    Signature{"\x28\xB5\x2F\xFD"sv, "a zstd file: unpack it with unzstd"},
    Signature{"\xFD\x37zXZ\0"sv, "an xz file: unpack it with unxz"},
    Signature{"BZh"sv, "a bzip2 file: unpack it with bunzip2"},
    Signature{"7z\xBC\xAF\x27\x1C"sv, "a 7z archive: unpack it"},
    Signature{"\x93NUMPY"sv, "a NumPy array"},
    Signature{"\x89HDF\r\n"sv, "an HDF5 file: convert the model to safetensors"},
    Signature{"lmgg"sv, "a GGML file, older than GGUF: convert the model again"},
    Signature{"tjgg"sv, "a GGML file, older than GGUF: convert the model again"},
    Signature{"fmgg"sv, "a GGML file, older than GGUF: convert the model again"},
    Signature{"\xFF\xFE\0\0"sv, "UTF-32 text: save it as UTF-8"},
    Signature{"\0\0\xFE\xFF"sv, "UTF-32 text: save it as UTF-8"},
    Signature{"\xFF\xFE"sv, "UTF-16 text: save it as UTF-8"},
    Signature{"\xFE\xFF"sv, "UTF-16 text: save it as UTF-8"},
};

// Whether a little-endian 64-bit number below 2^32 and a brace stand first, as in safetensors: the
// length may happen to begin like another format.
bool is_like_safetensors(std::string_view text) {
  return text.size() > 8 && text.substr(4, 4) == "\0\0\0\0"sv && text[8] == '{';
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_page(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTags = {"<!doctype", "<html", "<head",
                                                     "<body",     "<?xml", "<!--"};
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::string start(text.substr(0, 16));
  std::transform(start.begin(), start.end(), start.begin(), lower);
  return std::any_of(kTags.begin(), kTags.end(),
                     [&](std::string_view tag) { return start.starts_with(tag); });
}

// The digits that follow `field`; empty where there are none.
std::string_view digits_after(std::string_view text, std::string_view field) {
  const std::size_t at = text.find(field);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + field.size());
  return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
}

// What version control keeps in the place of a large file.
std::string pointer(std::string_view text) {
  if (text.starts_with("version http") && text.find("\noid ") != std::string_view::npos) {
    const std::string_view size = digits_after(text, "\nsize ");
    return fmt::format("a Git LFS pointer{}{}{}: run git lfs pull", size.empty() ? "" : " to ",
                       size, size.empty() ? "" : " bytes");
  }
  if (text.find("/annex/objects/") < 64) return "a git-annex pointer: run git annex get";
  return {};
}

// Pickles begin with their protocol, and archives of PyTorch hold a pickle under a known name.
std::string_view pickle(std::string_view text) {
  constexpr std::string_view kTorch =
      "a PyTorch file of pickled objects, which are not read: convert the model to safetensors";
  if (text.starts_with("PK\x03\x04")) {
    return text.find("data.pkl") < 256 ? kTorch : "a zip archive: unpack it";
  }
  const bool is_protocol = text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
  return is_protocol && text[2] != '\0' ? kTorch : std::string_view();
}

}  // namespace

std::string foreign_content(std::span<const std::byte> first_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(first_bytes.data()),
                              first_bytes.size());
  if (text.empty()) return "an empty file";
  if (text.find_first_not_of('\0') == std::string_view::npos) {
    return "only zero bytes at its begin: the download or copy did not finish";
  }
  if (is_like_safetensors(text)) return {};
  if (is_page(text)) return "an HTML or XML page: download the file itself";
  if (std::string found = pointer(text); !found.empty()) return found;
  if (const std::string_view found = pickle(text); !found.empty()) return std::string(found);
  const auto* found = std::find_if(kSignatures.begin(), kSignatures.end(), [&](const auto& known) {
    return text.starts_with(known.bytes);
  });
  return found == kSignatures.end() ? std::string() : std::string(found->sentence);
}

}  // namespace engram
