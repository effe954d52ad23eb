// SHA-256 of bytes, whole or piece by piece, from OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engram/status.hpp"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace engram {

// 64 lower-case hexadecimal digits.
Result<std::string> sha256_hex(std::span<const std::byte> bytes);

// Takes bytes in order. Movable.
class Sha256 {
 public:
  static Result<Sha256> create();
  void update(std::span<const std::byte> bytes);
  // The digest of everything taken; ends the object's use.
  Result<std::string> finish_hex();

 private:
  struct Delete {
    void operator()(evp_md_ctx_st* context) const;
  };
  Sha256() = default;
  std::unique_ptr<evp_md_ctx_st, Delete> context_;
  bool failed_ = false;
};

}  // namespace engram
