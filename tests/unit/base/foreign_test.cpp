// What stands in the place of a model's file: each kind by name and remedy, and no false alarm.
#include "base/foreign.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace engram {
namespace {

using namespace std::string_literals;

std::string found(std::string_view bytes) {
  return foreign_content(std::as_bytes(std::span(bytes.substr(0, kForeignBytes))));
}

TEST(ForeignContent, IsNamedWithItsRemedy) {
  const std::string oid = "\noid sha256:" + std::string(64, 'a');
  const std::pair<std::string, std::string> kCases[] = {
      {"version https://git-lfs.github.com/spec/v1" + oid + "\nsize 254123456\n",
       "a Git LFS pointer to 254123456 bytes: run git lfs pull"},
      {"version https://hawser.github.com/spec/v1" + oid + "\r\nsize 7\r\n",
       "a Git LFS pointer to 7 bytes: run git lfs pull"},
      {"version https://git-lfs.github.com/spec/v1" + oid, "a Git LFS pointer: run git lfs pull"},
      {"/annex/objects/SHA256E-s12--" + std::string(64, 'b'), "git annex get"},
      {"../.git/annex/objects/zx/1k/SHA256E-s12--", "git annex get"},
      {"<!DOCTYPE html><html><body>404", "an HTML or XML page: download the file itself"},
      {"\xEF\xBB\xBF \r\n<HTML lang=en>", "an HTML or XML page"},
      {"<?xml version='1.0'?><Error><Code>AccessDenied</Code>", "an HTML or XML page"},
      {"\x1F\x8B\x08\0\0\0\0\0\0\x03"s, "gunzip"},
      {"PK\x03\x04\x14\0\0\0\x08\0"s + std::string(20, '\0') + "model/config.json",
       "a zip archive: unpack it"},
      {"PK\x03\x04\0\0\x08\x08\0\0"s + std::string(20, '\0') + "archive/data.pkl",
       "a PyTorch file of pickled objects"},
      {"\x80\x02\x8A\nl\xFC\x9C\x46\xF9 j\xA8P\x19.\x80\x02M\xE9\x03."s, "a PyTorch file"},
      {"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94"s, "a PyTorch file"},
      {"\xFF\xFE{\0\"\0"s, "UTF-16 text: save it as UTF-8"},
      {"\xFF\xFE\0\0{\0\0\0"s, "UTF-32 text"},
      {"\x93NUMPY\x01\0v\0"s, "a NumPy array"},
      {std::string(4096, '\0'), "only zero bytes"},
      {"", "an empty file"},
  };
  for (const auto& [bytes, sentence] : kCases) {
    EXPECT_NE(found(bytes).find(sentence), std::string::npos) << sentence << ": " << found(bytes);
  }
}

// A safetensors length can begin like a gzip file (559,903), a pickle or a zip archive.
TEST(ForeignContent, IsNoneOfTheFilesThatWeRead) {
  for (const std::string& start :
       {"\x1F\x8B\x08\0"s, "\x80\x02\x01\0"s, "PK\x03\x04"s, "\xFF\xFE\0\0"s, "\x20\x01\0\0"s}) {
    EXPECT_EQ(found(start + "\0\0\0\0{\"__metadata__\":"s), "") << start;
  }
  EXPECT_EQ(found("GGUF\x03\0\0\0"s + std::string(500, '\0')), "");
  EXPECT_EQ(found("{\"model_type\": \"deepseek_v41\"}"), "");
  EXPECT_EQ(found("version 3 of our model"), "");
}

TEST(ForeignContent, MayBeCutAnywhere) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n";
  for (std::size_t length = 0; length <= pointer.size(); ++length) {
    const std::string sentence = found(std::string_view(pointer).substr(0, length));
    EXPECT_EQ(sentence.find("git lfs pull") != std::string::npos,
              length >= pointer.find("\noid ") + 5)
        << length;
  }
}

}  // namespace
}  // namespace engram
