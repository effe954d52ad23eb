// SHA-256 of bytes in memory, from OpenSSL.
#include "base/sha256.hpp"

#include <openssl/evp.h>

#include "base/error.hpp"

namespace engram {

Result<std::string> sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &digest_bytes, EVP_sha256(), nullptr) !=
      1) {
    return make_error(Code::internal, "SHA-256: OpenSSL refused the digest");
  }
  std::string text;
  for (unsigned int i = 0; i < digest_bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace engram
