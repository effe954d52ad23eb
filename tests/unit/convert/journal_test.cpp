// The journal of a conversion: what it remembers, what a crash may leave of it, what it refuses.
#include "convert/journal.hpp"

#include <gtest/gtest.h>

#include "tests/support/matchers.hpp"
#include "tests/support/temporary.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

TEST(Journal, RemembersUnitsAndDigests) {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "journal";
  {
    auto journal = Journal::create(path, "plan");
    ASSERT_TRUE(is_ok(journal));
    EXPECT_EQ(journal->units_done(0, 0), 0u);
    ASSERT_TRUE(is_ok(journal->record_units(0, 0, 5)));
    ASSERT_TRUE(is_ok(journal->record_units(0, 0, 9)));
    ASSERT_TRUE(is_ok(journal->record_units(1, 2, 7)));
    ASSERT_TRUE(is_ok(journal->record_done(3, "abc")));
  }
  const auto journal = Journal::resume(path, "plan");
  ASSERT_TRUE(is_ok(journal));
  EXPECT_EQ(journal->units_done(0, 0), 9u);
  EXPECT_EQ(journal->units_done(1, 2), 7u);
  EXPECT_EQ(journal->units_done(1, 1), 0u);
  EXPECT_EQ(journal->digest(3), "abc");
  EXPECT_EQ(journal->digest(0), std::nullopt);
}

// A crash may cut the file anywhere: what is left must be a prefix of what was recorded.
TEST(Journal, IgnoresALineCutShort) {
  const test::TemporaryDirectory folder;
  const std::string whole = "engram-convert-1 plan\nat 0 0 100\nat 0 0 2000\ndone 0 ff\n";
  const std::size_t first = whole.find('\n') + 1;
  for (std::size_t cut = first; cut <= whole.size(); ++cut) {
    const std::string path = folder / ("cut" + std::to_string(cut));
    test::write_file(path, whole.substr(0, cut));
    {
      auto journal = Journal::resume(path, "plan");
      ASSERT_TRUE(is_ok(journal));
      const std::uint64_t expected = cut < first + 11 ? 0 : cut < first + 23 ? 100 : 2000;
      ASSERT_EQ(journal->units_done(0, 0), expected) << "cut at " << cut;
      ASSERT_EQ(journal->digest(0).has_value(), cut == whole.size());
      ASSERT_TRUE(is_ok(journal->record_units(0, 1, 3)));
    }
    ASSERT_EQ(Journal::resume(path, "plan")->units_done(0, 1), 3u) << "cut at " << cut;
  }
}

TEST(Journal, RefusesAnotherConversions) {
  const test::TemporaryDirectory folder;
  const std::string path = folder / "journal";
  ASSERT_TRUE(is_ok(Journal::create(path, "plan")));
  EXPECT_TRUE(fails(Journal::resume(path, "other"), Code::invalid_argument,
                    "belongs to another conversion"));
  EXPECT_TRUE(fails(Journal::create(path, "plan"), Code::invalid_argument, "exists"));
  EXPECT_TRUE(fails(Journal::resume(folder / "none", "plan"), Code::not_found, "none"));
}

}  // namespace
}  // namespace engram
