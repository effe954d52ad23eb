// What ranks compare before they trust each other's rows.
#include "agreement.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace engram::mpi {
namespace {

std::string text_of(const std::vector<Fact>& facts, const Status& opened) {
  std::string text = opened ? "\n" : opened.error().message + "\n";
  for (const Fact& fact : facts) text += fact.name + "\n" + fact.value + "\n";
  return text;
}

// The first fact that differs, by the name it has on rank 0.
Error difference(std::size_t rank, const std::string& first, const std::string& other) {
  std::istringstream a(first);
  std::istringstream b(other);
  std::string name;
  std::string expected;
  std::string other_name;
  std::string found;
  std::getline(a, name);  // the errors, which are empty
  std::getline(b, other_name);
  while (std::getline(a, name) && std::getline(a, expected)) {
    std::getline(b, other_name);
    std::getline(b, found);
    if (name != other_name || expected != found) break;
  }
  return Error{Code::invalid_argument, 0,
               "ranks do not fit together: " + name + ": rank 0 has " + expected + ", rank " +
                   std::to_string(rank) + " has " + found};
}

}  // namespace

Status agree(Channel& channel, const std::vector<Fact>& facts, const Status& opened) {
  const std::string own = text_of(facts, opened);
  const auto all = channel.gather(std::as_bytes(std::span(own)));
  if (!all) return all.error();
  std::vector<std::string> texts;
  for (const auto& bytes : *all) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (!opened) return opened;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const std::string error = texts[rank].substr(0, texts[rank].find('\n'));
    if (error.empty()) continue;
    return Error{Code::unavailable, 0,
                 "rank " + std::to_string(rank) + " could not open its rows: " + error};
  }
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] != texts[0]) return difference(rank, texts[0], texts[rank]);
  }
  return {};
}

}  // namespace engram::mpi
