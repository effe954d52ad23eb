// Writes manifests of directories, and verifies directories against them.
#include <algorithm>
#include <atomic>
#include <optional>
#include <sstream>
#include <thread>

#include "engram/convert.hpp"

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/sha256.hpp"
#include "convert/manifest_json.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kTextBytesMax = std::uint64_t{1} << 28;
constexpr std::size_t kReadBytes = std::size_t{4} << 20;
// Lists of digests, ours first.
constexpr std::array<std::string_view, 3> kLists = {kManifestName, "aurora_export_manifest.json",
                                                    "SHA256SUMS"};

using Files = std::vector<Manifest::File>;

// Digests files on several threads, and tells how far it has come.
class Digester {
 public:
  Digester(std::string directory, int threads, const Progress& progress)
      : directory_(std::move(directory)), threads_(threads), progress_(progress) {}

  // Sets bytes and sha256 of every file; calls `found` with each as it is ready, one at a time per
  // file, from any thread.
  Status run(Files& files, const std::function<Status(const Manifest::File&)>& found) {
    for (const Manifest::File& file : files) {
      const auto opened = os::open_file(directory_ + "/" + file.path);
      if (!opened) return opened.error();
      total_ += (*opened)->size_bytes();
    }
    const std::thread::id caller = std::this_thread::get_id();
    return parallel_for(files.size(), threads_, [&](std::size_t i) -> Status {
      ENGRAM_TRY(digest(files[i], std::this_thread::get_id() == caller));
      return found(files[i]);
    });
  }

 private:
  Status digest(Manifest::File& entry, bool report) {
    const auto file = os::open_file(directory_ + "/" + entry.path);
    if (!file) return file.error();
    auto hash = Sha256::create();
    if (!hash) return std::move(hash).error();
    entry.bytes = (*file)->size_bytes();
    std::vector<std::byte> buffer(kReadBytes);
    for (std::uint64_t at = 0; at < entry.bytes;) {
      const auto bytes = std::span(buffer).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, entry.bytes - at)));
      ENGRAM_TRY((*file)->read_at(at, bytes));
      hash->update(bytes);
      at += bytes.size();
      const std::uint64_t done = done_.fetch_add(bytes.size()) + bytes.size();
      if (report && progress_) progress_(done, total_);
    }
    auto digest = hash->finish_hex();
    if (!digest) return std::move(digest).error();
    entry.sha256 = *std::move(digest);
    return {};
  }

  std::string directory_;
  int threads_;
  const Progress& progress_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> done_{0};
};

// Lines of `sha256sum`: digest, two characters, name.
Result<Files> parse_sums(const std::string& text, const std::string& where) {
  Files files;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    constexpr std::size_t kDigits = 64;
    if (line.size() < kDigits + 3 || line[kDigits] != ' ' ||
        line.find_first_not_of("0123456789abcdef") < kDigits) {
      return make_error(Code::corrupt, "{}: expected 'DIGEST  NAME', found '{}'", where, line);
    }
    std::string name = line.substr(kDigits + 2);
    if (name.starts_with("./")) name = name.substr(2);
    files.push_back({std::move(name), 0, line.substr(0, kDigits)});
  }
  return files;
}

// Hugging Face's cache links every large file to a blob named by its SHA-256.
Files blob_names(const std::string& directory, const std::vector<std::string>& names) {
  Files files;
  for (const std::string& name : names) {
    const std::string blob = os::link_target_name(directory + "/" + name);
    if (blob.size() == 64 && blob.find_first_not_of("0123456789abcdef") == std::string::npos) {
      files.push_back({name, 0, blob});
    }
  }
  return files;
}

// What the files should be, and by which list.
struct Expectation {
  std::string against;
  Files files;
  bool complete = false;  // the list is of every file
};

Result<Expectation> find_expectation(const std::string& directory,
                                     const std::vector<std::string>& names) {
  for (const std::string_view list : kLists) {
    if (std::find(names.begin(), names.end(), list) == names.end()) continue;
    const std::string path = directory + "/" + std::string(list);
    const auto text = os::read_text_file(path, kTextBytesMax);
    if (!text) return text.error();
    auto files = list.ends_with(".json") ? parse_manifest(*text, path) : parse_sums(*text, path);
    if (!files) return std::move(files).error();
    return Expectation{std::string(list), *std::move(files), list == kManifestName};
  }
  Files blobs = blob_names(directory, names);
  if (!blobs.empty()) return Expectation{"blob names", std::move(blobs), false};
  return make_error(Code::not_found,
                    "{}: nothing to verify against: no {}, and no links to blobs named by digest",
                    directory, fmt::join(kLists, ", "));
}

bool is_list(std::string_view name) {
  return std::find(kLists.begin(), kLists.end(), name) != kLists.end();
}

}  // namespace

Status write_manifest(const std::string& directory, int threads, const Progress& progress) {
  const std::string path = directory + "/" + std::string(kManifestName);
  const std::string partial = path + ".partial";
  os::remove_file(partial);  // of a run that was killed
  const auto names = os::list_tree(directory);
  if (!names) return names.error();
  Manifest manifest;
  for (const std::string& name : *names) {
    if (!is_list(name)) manifest.files.push_back({name, 0, ""});
  }
  ENGRAM_TRY(Digester(directory, threads, progress).run(manifest.files, [](const Manifest::File&) {
    return Status();
  }));
  const std::string config = directory + "/config.json";
  if (os::path_exists(config)) {
    auto text = os::read_text_file(config, kTextBytesMax);
    if (!text) return std::move(text).error();
    manifest.config = *std::move(text);
  }
  ENGRAM_TRY(os::write_text_file(partial, manifest_json(manifest)));
  return os::rename_file(partial, path);
}

Result<VerifyReport> verify(const std::string& directory, int threads, const Progress& progress) {
  const auto names = os::list_tree(directory);
  if (!names) return names.error();
  auto expected = find_expectation(directory, *names);
  if (!expected) return std::move(expected).error();
  for (const std::string& name : *names) {
    const bool listed = std::any_of(expected->files.begin(), expected->files.end(),
                                    [&](const Manifest::File& file) { return file.path == name; });
    if (listed || is_list(name) || !expected->complete) continue;
    return make_error(Code::corrupt, "{}/{}: not in {}", directory, name, expected->against);
  }
  VerifyReport report{expected->against, expected->files.size(), 0};
  Files found = expected->files;
  ENGRAM_TRY(
      Digester(directory, threads, progress).run(found, [&](const Manifest::File& file) -> Status {
        const Manifest::File& wanted =
            expected->files[static_cast<std::size_t>(&file - found.data())];
        if (wanted.bytes != 0 && wanted.bytes != file.bytes) {
          return make_error(Code::corrupt, "{}/{}: expected {} bytes, found {}", directory,
                            file.path, wanted.bytes, file.bytes);
        }
        if (wanted.sha256 == file.sha256) return {};
        return make_error(Code::corrupt, "{}/{}: expected SHA-256 {}, found {}", directory,
                          file.path, wanted.sha256, file.sha256);
      }));
  for (const Manifest::File& file : found) report.bytes += file.bytes;
  return report;
}

}  // namespace engram
