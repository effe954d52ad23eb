// The compiler's 128-bit unsigned integer under one name.
#pragma once

namespace engram {

__extension__ using Uint128 = unsigned __int128;

}  // namespace engram
