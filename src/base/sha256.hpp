// SHA-256 of bytes in memory, from OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engram/status.hpp"

namespace engram {

// 64 lower-case hexadecimal digits.
Result<std::string> sha256_hex(std::span<const std::byte> bytes);

}  // namespace engram
