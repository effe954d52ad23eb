// The tokens that benches are fed with.
#include "cli/bench_workload.hpp"

#include <random>

namespace engram::cli {

Workload Workload::text(const std::vector<std::vector<TokenId>>& documents) {
  Workload workload("text");
  for (const auto& document : documents) {
    workload.source_.insert(workload.source_.end(), document.begin(), document.end());
  }
  return workload;
}

Workload Workload::uniform(std::int64_t vocabulary, std::uint64_t seed) {
  Workload workload("uniform");
  workload.vocabulary_ = static_cast<std::uint64_t>(vocabulary);
  workload.state_ = seed;
  return workload;
}

Workload Workload::one_token(TokenId id) {
  Workload workload("one-token");
  workload.source_ = {id};
  return workload;
}

std::vector<TokenId> Workload::next(std::size_t count) {
  std::vector<TokenId> ids(count);
  if (source_.empty()) {
    std::mt19937_64 random(state_++);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % vocabulary_);
    return ids;
  }
  for (TokenId& id : ids) {
    id = source_[at_];
    at_ = (at_ + 1) % source_.size();
  }
  return ids;
}

}  // namespace engram::cli
