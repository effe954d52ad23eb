// Files, mappings and memory of the os module.
#include "os/file.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "os/mapping.hpp"
#include "os/memory.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/temporary.hpp"

namespace engram::os {
namespace {

using test::fails;
using test::is_ok;

TEST(ReadableFile, SaysHowMuchOfATruncatedRangeItFound) {
  const test::TemporaryDirectory folder;
  test::write_file(folder / "f", std::string(1000, 'x'));
  const auto file = open_file(folder / "f");
  ASSERT_TRUE(is_ok(file));
  std::vector<std::byte> bytes(4096);
  EXPECT_TRUE(fails((*file)->read_at(0, bytes), Code::corrupt,
                    "expected 4096 bytes at offset 0, "
                    "found 1000"));
  EXPECT_TRUE(is_ok((*file)->read_at(999, std::span(bytes).first(1))));
  EXPECT_TRUE(fails((*file)->read_at(1000, std::span(bytes).first(1)), Code::corrupt, "truncated"));
}

TEST(ReadableFile, NamesAMissingFileAndADirectory) {
  const test::TemporaryDirectory folder;
  EXPECT_TRUE(fails(open_file(folder / "none"), Code::not_found, "none: cannot open"));
  EXPECT_TRUE(fails(open_file(folder.path()), Code::invalid_argument, "expected a file"));
  EXPECT_TRUE(fails(Mapping::open_random(std::vector<std::string>{folder / "none"}),
                    Code::not_found, "none"));
}

TEST(ReadableFile, CapsATextFileBeforeReadingIt) {
  const test::TemporaryDirectory folder;
  test::write_file(folder / "f", "12345");
  EXPECT_TRUE(fails(read_text_file(folder / "f", 4), Code::unsupported, "5 bytes"));
  EXPECT_TRUE(is_ok(read_text_file(folder / "f", 5)));
}

TEST(WritableFile, NeverOverwrites) {
  const test::TemporaryDirectory folder;
  test::write_file(folder / "f", "old");
  EXPECT_TRUE(fails(WritableFile::create(folder / "f"), Code::invalid_argument, "refusing"));
  EXPECT_EQ(test::read_file(folder / "f"), "old");
}

TEST(Mapping, RefusesAnEmptyFile) {
  const test::TemporaryDirectory folder;
  test::write_file(folder / "f", "");
  EXPECT_TRUE(
      fails(Mapping::open_random(std::vector<std::string>{folder / "f"}), Code::corrupt, "empty"));
}

TEST(HugeBuffer, IsAlignedZeroedAndMovable) {
  auto buffer = HugeBuffer::allocate(3 << 20);
  ASSERT_TRUE(is_ok(buffer));
  ASSERT_GE(buffer->bytes().size(), 3u << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->bytes().data()) % (2 << 20), 0u);
  for (const std::byte byte : buffer->bytes()) ASSERT_EQ(byte, std::byte{0});
  const HugeBuffer moved = *std::move(buffer);
  std::memset(moved.bytes().data(), 1, moved.bytes().size());
  EXPECT_LE(moved.huge_bytes(), moved.bytes().size());
}

TEST(AvailableMemory, IsKnownHere) {
  EXPECT_GT(available_memory_bytes(), 0u);
  EXPECT_LT(available_memory_bytes(), std::uint64_t{1} << 50);
}

}  // namespace
}  // namespace engram::os
