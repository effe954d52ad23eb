// SHA-256 of bytes, whole or piece by piece, from OpenSSL.
#include "base/sha256.hpp"

#include <openssl/evp.h>

#include "base/error.hpp"

namespace engram {

void Sha256::Delete::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Result<Sha256> Sha256::create() {
  Sha256 hash;
  hash.context_.reset(EVP_MD_CTX_new());
  if (hash.context_ == nullptr ||
      EVP_DigestInit_ex(hash.context_.get(), EVP_sha256(), nullptr) != 1) {
    return make_error(Code::internal, "SHA-256: OpenSSL refused the digest");
  }
  return hash;
}

void Sha256::update(std::span<const std::byte> bytes) {
  failed_ |= EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1;
}

Result<std::string> Sha256::finish_hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  if (failed_ || EVP_DigestFinal_ex(context_.get(), digest.data(), &digest_bytes) != 1) {
    return make_error(Code::internal, "SHA-256: OpenSSL refused the digest");
  }
  std::string text;
  for (unsigned int i = 0; i < digest_bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

Result<std::string> sha256_hex(std::span<const std::byte> bytes) {
  auto hash = Sha256::create();
  if (!hash) return std::move(hash).error();
  hash->update(bytes);
  return hash->finish_hex();
}

}  // namespace engram
