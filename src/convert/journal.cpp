// How far a conversion has come, on disk: what `resume` goes on from.
#include "convert/journal.hpp"

#include <sstream>

#include "base/error.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kJournalBytesMax = std::uint64_t{64} << 20;
constexpr std::string_view kFirstWord = "engram-convert-1 ";

}  // namespace

Result<Journal> Journal::create(const std::string& path, const std::string& plan) {
  auto file = os::WritableFile::create(path);
  if (!file) return std::move(file).error();
  Journal journal(*std::move(file));
  ENGRAM_TRY(journal.append(std::string(kFirstWord) + plan));
  return journal;
}

Result<Journal> Journal::resume(const std::string& path, const std::string& plan) {
  const auto text = os::read_text_file(path, kJournalBytesMax);
  if (!text) return text.error();
  auto file = os::WritableFile::open_existing(path);
  if (!file) return std::move(file).error();
  Journal journal(*std::move(file));
  ENGRAM_TRY(journal.parse(*text, path, plan));
  // A line cut short would run into the next one.
  if (!text->empty() && text->back() != '\n') ENGRAM_TRY(journal.append(""));
  return journal;
}

Status Journal::parse(const std::string& text, const std::string& path, const std::string& plan) {
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::string line;
  std::getline(lines, line);
  if (line != std::string(kFirstWord) + plan) {
    return make_error(Code::invalid_argument,
                      "{}: belongs to another conversion: other source, options or version; "
                      "convert without resume to start over",
                      path);
  }
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string kind;
    std::size_t file = 0;
    words >> kind >> file;
    if (kind == "at") {
      std::size_t stream = 0;
      std::uint64_t units = 0;
      if (words >> stream >> units) units_[{file, stream}] = units;
    } else if (kind == "done") {
      std::string digest;
      if (words >> digest) digests_[file] = digest;
    }
  }
  return {};
}

std::uint64_t Journal::units_done(std::size_t file, std::size_t stream) const {
  const auto found = units_.find({file, stream});
  return found == units_.end() ? 0 : found->second;
}

std::optional<std::string> Journal::digest(std::size_t file) const {
  const auto found = digests_.find(file);
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

Status Journal::append(const std::string& line) {
  const std::string text = line + "\n";
  ENGRAM_TRY(file_.append(std::as_bytes(std::span(text))));
  return file_.sync();
}

Status Journal::record_units(std::size_t file, std::size_t stream, std::uint64_t units) {
  return append(fmt::format("at {} {} {}", file, stream, units));
}

Status Journal::record_done(std::size_t file, const std::string& sha256) {
  return append(fmt::format("done {} {}", file, sha256));
}

}  // namespace engram
