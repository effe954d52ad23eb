// Finds tensors by name in a model directory, through its index or its files' own headers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engram/checkpoint.hpp"
#include "engram/status.hpp"

namespace engram {

// Reads the header of a file only when a tensor in it is asked for.
class TensorCatalog {
 public:
  static Result<TensorCatalog> open(const std::string& directory);

  // Every tensor name that the directory promises.
  bool contains(std::string_view name) const { return files_.contains(name); }
  std::vector<std::string> names() const;

  // Code::not_found where no file is said to have it; Code::corrupt where the file that should
  // have it does not; the shard's own error where it cannot be read.
  Result<TensorExtent> find(std::string_view name);
  // __metadata__ of the file that a found tensor lies in.
  const std::map<std::string, std::string>& metadata(const TensorExtent& tensor) const;

 private:
  Status read_index(const std::string& text, const std::string& where);
  Status scan(const std::vector<std::string>& files);
  Status load_file(const std::string& file);

  std::string directory_;
  std::map<std::string, std::string, std::less<>> files_;  // tensor name -> file name
  std::set<std::string> loaded_;                           // files whose header has been read
  std::map<std::string, TensorExtent, std::less<>> tensors_;
  std::map<std::string, std::map<std::string, std::string>> metadata_;  // by path
};

}  // namespace engram
