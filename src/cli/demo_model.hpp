// A small model in a temporary folder, from the tokenizer that is built into the program.
#pragma once

#include <string>

#include "engram/status.hpp"

namespace engram::cli {

// The embedded data/demo-tokenizer.json.
std::string demo_tokenizer_json();

// Removes its folder when it goes. Movable.
class DemoModel {
 public:
  static Result<DemoModel> make();
  DemoModel(DemoModel&& other) noexcept;
  DemoModel& operator=(DemoModel&&) = delete;
  ~DemoModel();

  const std::string& directory() const { return directory_; }

 private:
  explicit DemoModel(std::string folder);
  std::string folder_;  // holds the tokenizer and the model
  std::string directory_;
};

}  // namespace engram::cli
