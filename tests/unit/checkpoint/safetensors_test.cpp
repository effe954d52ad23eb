// Every rule of the safetensors header, each broken once, and every byte of one damaged.
#include "checkpoint/safetensors.hpp"

#include <gtest/gtest.h>

#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

// A file that exists only in memory: the fault seam of the os module.
class MemoryFile final : public os::ReadableFile {
 public:
  explicit MemoryFile(std::string bytes, std::uint64_t claimed_bytes = 0)
      : bytes_(std::move(bytes)), claimed_bytes_(claimed_bytes) {}
  std::uint64_t size_bytes() const override {
    return claimed_bytes_ != 0 ? claimed_bytes_ : bytes_.size();
  }
  const std::string& path() const override { return path_; }
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    largest_read_ = std::max<std::uint64_t>(largest_read_, out.size());
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return Error{Code::corrupt, 0, "m: truncated"};
    }
    std::copy_n(reinterpret_cast<const std::byte*>(bytes_.data()) + offset, out.size(),
                out.begin());
    return {};
  }
  std::uint64_t largest_read() const { return largest_read_; }

 private:
  std::string bytes_;
  std::uint64_t claimed_bytes_;
  std::string path_ = "m";
  mutable std::uint64_t largest_read_ = 0;
};

std::string length_word(std::uint64_t value) {
  std::string word(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) word[i] = static_cast<char>(value >> (8 * i));
  return word;
}

std::string file(const std::string& header, std::size_t payload_bytes) {
  return length_word(header.size()) + header + std::string(payload_bytes, 'x');
}

auto read(const std::string& bytes) { return read_safetensors(MemoryFile(bytes)); }

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
         R"(],"data_offsets":[)" + offsets + "]}";
}

TEST(Safetensors, ReadsTensorsInAnyOrderWithMetadata) {
  const auto header =
      read(file("{" + tensor("b", "F32", "2", "4,12") + R"(,"__metadata__":{"k":"v"},)" +
                    tensor("a", "U8", "2,2", "0,4") + "}   ",
                12));
  ASSERT_TRUE(is_ok(header));
  const auto& tensors = header->tensors;
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_EQ(tensors[1].offset_bytes - tensors[0].offset_bytes, 4u);
  EXPECT_EQ(tensors[1].size_bytes, 8u);
  EXPECT_EQ(header->metadata, (std::map<std::string, std::string>{{"k", "v"}}));
}

TEST(Safetensors, TakesEmptyAndScalarTensorsAndNullMetadata) {
  EXPECT_TRUE(is_ok(read(file(R"({"__metadata__":null})", 0))));
  EXPECT_TRUE(is_ok(read(file(
      "{" + tensor("e", "F32", "0,5", "0,0") + "," + tensor("s", "I64", "", "0,8") + "}", 8))));
}

TEST(Safetensors, RefusesEveryBrokenRuleWithItsOwnMessage) {
  const auto refused = [](const std::string& bytes, const std::string& words,
                          Code code = Code::corrupt) {
    EXPECT_TRUE(fails(read(bytes), code, words)) << bytes;
  };
  const std::string good = tensor("t", "U8", "4", "0,4");
  refused("1234567", "at least 8 bytes, found 7");
  refused(file("", 0), "'{' as its first byte");
  refused(file(" {" + good + "}", 4), "'{' as its first byte");
  refused(file("\xef\xbb\xbf{" + good + "}", 4), "'{' as its first byte");
  refused(file("{" + good, 4), "not valid JSON");
  refused(file("{" + good + "} x", 4), "not valid JSON");
  refused(file("{\"\xff\":1}", 0), "not valid JSON");
  refused(file("{" + std::string(2000, '[') + "}", 0), "not valid JSON");
  refused(file("{" + good + "," + tensor("t", "U8", "4", "4,8") + "}", 8), "'t' appears twice");
  refused(file(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"shape":[4]}})", 4),
          "'shape' appears twice");
  refused(file(R"({"t":{"dtype":"U8","shape":[4]}})", 4), "found 2");
  refused(file(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", 4), "found 4");
  refused(file(R"({"t":{"dtype":"U8","shape":[4],"offsets":[0,4]}})", 4),
          "'data_offsets' is missing");
  refused(file(R"({"t":7})", 0), "expected an object");
  refused(file("{" + tensor("t", "F9", "4", "0,4") + "}", 4), "dtype 'F9'", Code::unsupported);
  refused(file("{" + tensor("t", "U8", "-4", "0,4") + "}", 4), "whole numbers");
  refused(file("{" + tensor("t", "U8", "4.0", "0,4") + "}", 4), "whole numbers");
  refused(file("{" + tensor("t", "U8", "4e0", "0,4") + "}", 4), "whole numbers");
  refused(file("{" + tensor("t", "U8", "36893488147419103232", "0,4") + "}", 4), "");
  refused(file("{" + tensor("t", "U8", "8589934592,8589934592", "0,4") + "}", 4), "overflows");
  refused(file("{" + tensor("t", "F32", "4", "0,4") + "}", 4),
          "needs 16 bytes, data_offsets give 4");
  refused(file("{" + tensor("t", "F4", "3", "0,1") + "}", 1), "do not fill whole bytes");
  refused(file("{" + tensor("t", "U8", "4", "4,0") + "}", 4), "a begin and an end after it");
  refused(file("{" + tensor("t", "U8", "4", "0") + "}", 4), "a begin and an end after it");
  refused(file("{" + tensor("t", "U8", "4", "2,6") + "}", 6), "hole of 2 bytes between the header");
  refused(file("{" + good + "," + tensor("u", "U8", "2", "5,7") + "}", 7), "hole of 1 bytes");
  refused(file("{" + good + "," + tensor("u", "U8", "2", "3,5") + "}", 5), "'u' overlaps t by 1");
  refused(file("{" + good + "}", 3), "truncated: tensors need 4 payload bytes, the file has 3");
  refused(file("{" + good + "}", 5), "1 bytes after the last tensor");
  refused(file(R"({"__metadata__":{"a":1}})", 0), "expected a string");
  refused(file(R"({"__metadata__":7})", 0), "__metadata__");
}

TEST(Safetensors, NeverAllocatesWhatALengthMerelyClaims) {
  for (const std::uint64_t claim : {std::uint64_t{1} << 63, std::uint64_t{100'000'001},
                                    ~std::uint64_t{0}, std::uint64_t{99'999'999}}) {
    const MemoryFile hostile(length_word(claim) + "{}");
    EXPECT_TRUE(fails(read_safetensors(hostile), Code::corrupt, "")) << claim;
    EXPECT_LE(hostile.largest_read(), 8u);
  }
  // The length of the file itself: one that is not safetensors at all.
  EXPECT_TRUE(fails(read(length_word(10) + "{}"), Code::corrupt, "truncated: header of 10 bytes"));
}

TEST(Safetensors, ReportsAFileThatShrankWhileItWasRead) {
  const std::string whole = file("{" + tensor("t", "U8", "4", "0,4") + "}", 4);
  EXPECT_TRUE(fails(read_safetensors(MemoryFile(whole.substr(0, 30), whole.size())), Code::corrupt,
                    "truncated"));
}

// A header whose every damaged form is either refused or means exactly the same tensors.
TEST(Safetensors, RefusesOrKeepsItsMeaningUnderEveryBitFlipAndCut) {
  const std::string whole =
      file("{" + tensor("a", "U8", "2,2", "0,4") + "," + tensor("b", "BF16", "2", "4,8") + "}", 8);
  const auto truth = read(whole);
  ASSERT_TRUE(is_ok(truth));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(fails(read(whole.substr(0, length)), Code::corrupt, "")) << length;
  }
  const std::size_t header_end = whole.size() - 8;
  for (std::size_t bit = 0; bit < header_end * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto found = read(damaged);
    if (!found) continue;
    const auto& tensors = found->tensors;
    // What still reads differs in spelling only (a name, or a dtype of equal width): both tensors
    // keep their extents.
    ASSERT_EQ(tensors.size(), 2u) << "bit " << bit;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(tensors[i].offset_bytes, truth->tensors[i].offset_bytes) << "bit " << bit;
      EXPECT_EQ(tensors[i].size_bytes, truth->tensors[i].size_bytes) << "bit " << bit;
    }
  }
}

}  // namespace
}  // namespace engram
