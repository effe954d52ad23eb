// Pages and descriptions of paged tables: what passes and every way not to.
#include <gtest/gtest.h>

#include <vector>

#include "engram/table.hpp"

#include "tests/support/hash_fixture.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

constexpr std::uint64_t kIdentity = 0x0123456789ABCDEF;

std::vector<std::byte> sealed_page(std::uint64_t number, std::uint64_t identity) {
  test::Random random(number);
  std::vector<std::byte> page(kPageBytes);
  for (std::size_t i = 0; i < 15 * 264; ++i) page[i] = static_cast<std::byte>(random.next());
  seal_page(page, number, identity);
  return page;
}

TEST(Page, HoldsAsManyRowsAsFitBesideItsTrailer) {
  EXPECT_EQ(rows_per_page({RowFormat::fp8_e4m3_e8m0, 256}), 15u);
  EXPECT_EQ(rows_per_page({RowFormat::mxfp4, 256}), 30u);
  EXPECT_EQ(rows_per_page({RowFormat::bf16, 256}), 7u);
  EXPECT_EQ(rows_per_page({RowFormat::f32, 2048}), 0u);
}

TEST(Page, ShowsEveryFlippedBit) {
  const auto good = sealed_page(7, kIdentity);
  ASSERT_TRUE(is_ok(check_page(good, 7, kIdentity, "t")));
  for (std::size_t bit = 0; bit < kPageBytes * 8; ++bit) {
    auto page = good;
    page[bit / 8] ^= std::byte{1} << bit % 8;
    ASSERT_FALSE(check_page(page, 7, kIdentity, "t")) << "bit " << bit;
  }
}

TEST(Page, SaysWhatIsWrong) {
  const auto page = sealed_page(7, kIdentity);
  EXPECT_TRUE(fails(check_page(page, 8, kIdentity, "t"), Code::corrupt,
                    "t: page 8: misplaced: it says it is page 7"));
  EXPECT_TRUE(fails(check_page(page, 7, kIdentity + 1, "t"), Code::corrupt,
                    "of another table: expected identity 89abcdf0, found 89abcdef"));
  // The low half of the identity agrees: the checksum, seeded with all of it, does not.
  EXPECT_TRUE(fails(check_page(page, 7, kIdentity ^ 1ull << 40, "t"), Code::corrupt, "damaged"));
  auto torn = page;
  std::fill(torn.begin() + 512, torn.begin() + 1024, std::byte{0});
  EXPECT_TRUE(fails(check_page(torn, 7, kIdentity, "t"), Code::corrupt, "page 7: damaged"));
}

PagedDescription description() {
  const Hasher hasher = test::make_hasher(test::toy_config());
  PagedDescription made;
  made.layout = {RowFormat::fp8_e4m3_e8m0, 32};
  made.geometry = test::toy_config();
  made.geometry.layer_ids = {14};
  made.constants = hasher.spec().layers()[1];
  made.token_map_sha256 = "ab";
  made.source = "cd";
  return made;
}

TEST(PagedDescription, ComesBackFromItsMetadata) {
  for (const RowLayout layout :
       {RowLayout{RowFormat::fp8_e4m3_e8m0, 32}, RowLayout{RowFormat::q8_0, 64},
        RowLayout{RowFormat::affine, 128, 64, 3, false}}) {
    PagedDescription made = description();
    made.layout = layout;
    const auto found = PagedDescription::from_metadata(made.to_metadata(), "t");
    ASSERT_TRUE(is_ok(found));
    EXPECT_EQ(found->layout, made.layout);
    EXPECT_EQ(found->constants.primes, made.constants.primes);
    EXPECT_EQ(found->constants.row_count, 864u);
    EXPECT_EQ(found->identity(), made.identity());
    EXPECT_EQ(found->to_metadata(), made.to_metadata());
  }
}

TEST(PagedDescription, NeedsEveryField) {
  const auto whole = description().to_metadata();
  for (const auto& [name, value] : whole) {
    auto part = whole;
    part.erase(name);
    EXPECT_TRUE(fails(PagedDescription::from_metadata(part, "t"), Code::corrupt,
                      "'" + name + "' is missing"));
    if (name == "engram.token_map_sha256" || name == "engram.source") continue;
    part[name] = "x";
    EXPECT_FALSE(PagedDescription::from_metadata(part, "t")) << name;
  }
}

TEST(PagedDescription, HasAnIdentityThatEverythingChanges) {
  const std::uint64_t identity = description().identity();
  const auto expect_other = [&](auto change) {
    PagedDescription made = description();
    change(made);
    EXPECT_NE(made.identity(), identity);
  };
  expect_other([](PagedDescription& d) { d.source = "ce"; });
  expect_other([](PagedDescription& d) { d.token_map_sha256 = "ac"; });
  expect_other([](PagedDescription& d) { d.constants.layer_id = 1; });
  expect_other([](PagedDescription& d) { d.constants.row_count = 863; });
  expect_other([](PagedDescription& d) { d.layout.format = RowFormat::mxfp4; });
  expect_other([](PagedDescription& d) { d.constants.multipliers[0] += 2; });
}

}  // namespace
}  // namespace engram
