// A small model in a temporary folder, from the tokenizer that is built into the program.
#include "cli/demo_model.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "engram/convert.hpp"

namespace engram::cli {

// Generated from data/demo-tokenizer.json by the build.
extern const unsigned char kDemoTokenizer[];
extern const std::size_t kDemoTokenizerBytes;

namespace {

namespace fs = std::filesystem;

Result<std::string> unique_folder() {
  std::error_code code;
  const fs::path base = fs::temp_directory_path(code);
  if (code) return Error{Code::io, code.value(), "no temporary directory: " + code.message()};
  std::random_device random;
  constexpr int kAttempts = 16;
  for (int i = 0; i < kAttempts; ++i) {
    const fs::path folder = base / fmt::format("engram-demo-{:08x}", random());
    if (fs::create_directory(folder, code)) return folder.string();
  }
  return Error{Code::io, code.value(), fmt::format("{}: cannot make a folder", base.string())};
}

}  // namespace

std::string demo_tokenizer_json() {
  return {reinterpret_cast<const char*>(kDemoTokenizer), kDemoTokenizerBytes};
}

DemoModel::DemoModel(std::string folder)
    : folder_(std::move(folder)), directory_(folder_ + "/model") {}

DemoModel::DemoModel(DemoModel&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), directory_(std::move(other.directory_)) {}

DemoModel::~DemoModel() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<DemoModel> DemoModel::make() {
  auto folder = unique_folder();
  if (!folder) return std::move(folder).error();
  DemoModel model(*std::move(folder));
  ModelRecipe recipe;
  recipe.tokenizer_path = model.folder_ + "/tokenizer.json";
  std::ofstream tokenizer(recipe.tokenizer_path, std::ios::binary);
  tokenizer << demo_tokenizer_json();
  tokenizer.close();
  if (!tokenizer) return Error{Code::io, 0, recipe.tokenizer_path + ": cannot write"};
  ENGRAM_TRY(make_model(model.directory_, recipe));
  return model;
}

}  // namespace engram::cli
