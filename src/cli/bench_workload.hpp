// The tokens that benches are fed with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engram/types.hpp"

namespace engram::cli {

// An endless stream of token ids. Never the same stretch twice before the source is used up.
class Workload {
 public:
  // Documents one after another.
  static Workload text(const std::vector<std::vector<TokenId>>& documents);
  // Random ids below `vocabulary`: no two n-grams alike, the worst case.
  static Workload uniform(std::int64_t vocabulary, std::uint64_t seed);
  // One id for ever: three n-grams a layer, the best case.
  static Workload one_token(TokenId id);

  const std::string& name() const { return name_; }
  // The next `count` ids.
  std::vector<TokenId> next(std::size_t count);

 private:
  explicit Workload(std::string name) : name_(std::move(name)) {}
  std::string name_;
  std::vector<TokenId> source_;  // repeated; empty: random ids
  std::size_t at_ = 0;
  std::uint64_t vocabulary_ = 0;
  std::uint64_t state_ = 0;
};

}  // namespace engram::cli
