// Directories that are only seen complete: locks, leftovers, room.
#include "convert/staging.hpp"

#include <gtest/gtest.h>

#include "tests/support/matchers.hpp"
#include "tests/support/temporary.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

TEST(StagedDirectory, AppearsWholeOrNotAtAll) {
  const test::TemporaryDirectory folder;
  const std::string target = folder / "out";
  {
    auto staged = StagedDirectory::begin(target, false);
    ASSERT_TRUE(is_ok(staged));
    test::write_file(staged->path("a"), "half");
    EXPECT_FALSE(os::path_exists(target));
  }  // a killed process leaves just this
  EXPECT_EQ(test::read_file(target + ".partial/a"), "half");
  {
    auto resumed = StagedDirectory::begin(target, true);
    ASSERT_TRUE(is_ok(resumed));
    EXPECT_TRUE(resumed->resumes());
    EXPECT_EQ(test::read_file(resumed->path("a")), "half");
  }
  auto again = StagedDirectory::begin(target + "/", false);
  ASSERT_TRUE(is_ok(again));
  EXPECT_FALSE(os::path_exists(again->path("a")));  // it starts over
  test::write_file(again->path("a"), "whole");
  ASSERT_TRUE(is_ok(again->publish()));
  EXPECT_EQ(test::read_file(target + "/a"), "whole");
  EXPECT_FALSE(os::path_exists(target + ".partial"));
  EXPECT_FALSE(os::path_exists(target + ".lock"));
  EXPECT_TRUE(fails(StagedDirectory::begin(target, false), Code::invalid_argument,
                    "refusing to overwrite"));
  EXPECT_TRUE(fails(StagedDirectory::begin(folder / "none", true), Code::invalid_argument,
                    "nothing to resume"));
}

TEST(StagedDirectory, HasOneWriter) {
  const test::TemporaryDirectory folder;
  const std::string target = folder / "out";
  auto first = StagedDirectory::begin(target, false);
  ASSERT_TRUE(is_ok(first));
  for (const bool resume : {false, true}) {
    EXPECT_TRUE(fails(StagedDirectory::begin(target, resume), Code::unavailable,
                      "another job is writing it"));
  }
  EXPECT_TRUE(os::is_directory(target + ".partial"));  // the refused one touched nothing
}

TEST(StagedDirectory, AsksForRoomFirst) {
  const test::TemporaryDirectory folder;
  const auto staged = StagedDirectory::begin(folder / "out", false);
  ASSERT_TRUE(is_ok(staged));
  EXPECT_TRUE(is_ok(staged->check_room(1000)));
  EXPECT_TRUE(fails(staged->check_room(std::uint64_t{1} << 60), Code::io,
                    "needs 1152921504606846976 bytes more"));
}

}  // namespace
}  // namespace engram
