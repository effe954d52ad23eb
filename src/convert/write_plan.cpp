// Carries out a plan: every file under a journal, then a manifest, then the directory's name.
#include "convert/write_plan.hpp"

#include <fmt/format.h>

#include "base/sha256.hpp"
#include "convert/file_writer.hpp"
#include "convert/manifest_json.hpp"
#include "convert/staging.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

constexpr std::string_view kJournalName = "engram-convert.journal";

// What a journal is bound to: the source as it is now, the options, and every planned byte count.
Result<std::string> plan_digest(const WriteJob& job) {
  const ConvertOptions& options = job.input.options;
  const Mxfp4Rule& rule = options.mxfp4;
  std::string text =
      fmt::format("{} {} {} {} {} {}\n", job.input.source_name, options.to, options.rows_per_chunk,
                  static_cast<int>(rule.exponent), static_cast<int>(rule.ties), rule.negative_zero);
  for (const TableSource& table : job.input.source.tables()) {
    text += fmt::format("{} {} {}\n", table.weight.path, table.weight.file_bytes,
                        os::modified_ns(table.weight.path));
  }
  for (const OutputFile& file : job.plan.files) {
    text += fmt::format("{} {}\n{}", file.name, file.file_bytes, file.header);
  }
  return sha256_hex(std::as_bytes(std::span(text)));
}

// The directory of a planned name inside the staged one.
Status make_parent(const StagedDirectory& staged, const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {};
  return os::make_directory(staged.path(name.substr(0, slash)));
}

Status write_files(const WriteJob& job, const StagedDirectory& staged, Journal& journal,
                   Manifest& manifest) {
  std::uint64_t done = 0;
  const Progress& progress = job.input.options.progress;
  const auto wrote = [&](std::uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, job.plan.total_bytes());
  };
  for (std::size_t i = 0; i < job.plan.files.size(); ++i) {
    const OutputFile& file = job.plan.files[i];
    ENGRAM_TRY(make_parent(staged, file.name));
    auto sha256 =
        write_file({file, i, staged.path(file.name), job.input.options.threads, wrote}, journal);
    if (!sha256) return std::move(sha256).error();
    manifest.files.push_back({file.name, file.file_bytes, *std::move(sha256)});
  }
  return {};
}

// Small files are written anew whatever an interrupted run left.
Status write_text(const StagedDirectory& staged, const std::string& name, std::string_view text) {
  ENGRAM_TRY(make_parent(staged, name));
  os::remove_file(staged.path(name));
  return os::write_text_file(staged.path(name), text);
}

Status write_texts(const WriteJob& job, const StagedDirectory& staged, Manifest& manifest) {
  for (const auto& [name, text] : job.plan.texts) {
    ENGRAM_TRY(write_text(staged, name, text));
    auto sha256 = sha256_hex(std::as_bytes(std::span(text)));
    if (!sha256) return std::move(sha256).error();
    manifest.files.push_back({name, text.size(), *std::move(sha256)});
    if (name == "config.json") manifest.config = text;
  }
  return write_text(staged, std::string(kManifestName), manifest_json(manifest));
}

}  // namespace

Status write_plan(const WriteJob& job, const std::string& destination) {
  auto staged = StagedDirectory::begin(destination, job.input.options.resume);
  if (!staged) return std::move(staged).error();
  const auto digest = plan_digest(job);
  if (!digest) return digest.error();
  const std::string journal_path = staged->path(std::string(kJournalName));
  auto journal = staged->resumes() && os::path_exists(journal_path)
                     ? Journal::resume(journal_path, *digest)
                     : Journal::create(journal_path, *digest);
  if (!journal) return std::move(journal).error();
  ENGRAM_TRY(staged->check_room(job.plan.total_bytes()));
  Manifest manifest;
  manifest.source = job.input.source_name;
  ENGRAM_TRY(write_files(job, *staged, *journal, manifest));
  ENGRAM_TRY(write_texts(job, *staged, manifest));
  os::remove_file(journal_path);
  ENGRAM_TRY(staged->publish());
  // Headers and small files were not counted on the way.
  if (const Progress& progress = job.input.options.progress) {
    progress(job.plan.total_bytes(), job.plan.total_bytes());
  }
  return {};
}

}  // namespace engram
