// What people have in the place of a model's file, recognised by its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace engram {

// How many first bytes foreign_content() needs to say all that it can.
inline constexpr std::size_t kForeignBytes = 512;

// A noun with its remedy for the end of a message, "a Git LFS pointer to 4096 bytes: run git lfs
// pull", or nothing where the bytes are of no kind known here. All bytes of a file that is shorter.
// To be asked after a file's own reader has refused it: it does not know JSON, safetensors or GGUF
// of this machine's byte order, and no such file is ever refused because of it.
std::string foreign_content(std::span<const std::byte> first_bytes);

}  // namespace engram
