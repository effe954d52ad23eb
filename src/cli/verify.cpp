// engram manifest and engram verify: digests of every file, written and compared.
#include <fmt/format.h>

#include <memory>
#include <thread>

#include "engram/convert.hpp"

#include "cli/command.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

struct Options {
  std::string directory;
  int threads = 1;
};

Status run_manifest(const Options& options) {
  ENGRAM_TRY(write_manifest(options.directory, options.threads, progress_bar("hashing")));
  fmt::print("{}/engram-manifest.json\n", options.directory);
  return {};
}

Status run_verify(const Options& options) {
  const auto report = verify(options.directory, options.threads, progress_bar("verifying"));
  if (!report) return report.error();
  fmt::print("PASS     {} files, {} bytes, against {}\n", report->files, report->bytes,
             report->against);
  fmt::print(
      "         The bytes are those listed. That says nothing about accuracy: engram check "
      "reads the\n         tables, engram compare measures them against their source.\n");
  return {};
}

void add(const Command& app, const char* name, const char* description,
         Status (*body)(const Options&)) {
  const auto options = std::make_shared<Options>();
  options->threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const Command command = app.add_subcommand(name, description);
  command.add_option("DIR", options->directory, "Model directory").required();
  command.add_option("--threads", options->threads, "Files read at once").range(1, 1024);
  command.runs([options, body] { return body(*options); });
}

}  // namespace

void add_verify(const Command& app) {
  add(app, "manifest", "Writes the SHA-256 of every file of a directory", run_manifest);
  add(app, "verify",
      "Reads every file again and compares it with engram-manifest.json, "
      "aurora_export_manifest.json, SHA256SUMS or Hugging Face blob names",
      run_verify);
}

}  // namespace engram::cli
