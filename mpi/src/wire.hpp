// What ranks send each other. All of one machine kind: little endian, no conversions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace engram::mpi {

inline constexpr int kRequestTag = 1;
inline constexpr int kReplyTag = 2;
inline constexpr std::size_t kTablesMax = 64;

// A request: this header, a count of rows for each table in `tables` (u32, ascending), then the
// rows (i64, table-global) of each. A rank that wants nothing sends the header and zeros.
struct RequestHeader {
  std::uint64_t round;   // from 0, the same on every rank
  std::uint64_t tables;  // bit t: table t takes part
};
static_assert(sizeof(RequestHeader) == 16);

// A reply, to requests with rows: this header, then the stored rows in the order asked for; or,
// where `code` is not ok, a message of `message_bytes` in their place.
struct ReplyHeader {
  std::uint64_t round;
  std::int32_t code;
  std::uint32_t message_bytes;
};
static_assert(sizeof(ReplyHeader) == 16);

// Room that every reply has for a message, also where its rows are few.
inline constexpr std::size_t kMessageBytesMax = 1024;

}  // namespace engram::mpi
