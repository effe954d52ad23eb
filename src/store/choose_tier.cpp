// Which tier fits: the tables, the memory there is, and what the device answers.
#include <algorithm>
#include <chrono>
#include <vector>

#include "base/error.hpp"
#include "base/mix64.hpp"
#include "os/block_reader.hpp"
#include "os/file.hpp"
#include "os/mapping.hpp"
#include "os/memory.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

constexpr std::size_t kSamples = 512;    // pages asked about
constexpr std::size_t kProbeReads = 48;  // one token's rows
constexpr std::uint64_t kReadBytes = 4096;

class Ignore final : public os::BlockSink {
 public:
  Status take(std::size_t /*read*/, std::span<const std::byte> /*bytes*/) override { return {}; }
};

std::string_view name_of(ReadMethod method) {
  switch (method) {
    case ReadMethod::uring:
      return "io_uring";
    case ReadMethod::readahead:
      return "readahead (io_uring is not allowed here)";
    case ReadMethod::threads:
      return "reading threads";
    case ReadMethod::automatic:
      break;
  }
  return "an automatic method";
}

// Whether nearly all of the table's pages are in the page cache; what cannot be mapped is not.
bool is_cached(const TableSource& source) {
  const auto mapping = os::Mapping::open_random(source.weight.files());
  return mapping && mapping->resident_pages(kSamples) >= kSamples * 95 / 100;
}

std::string in_gib(std::uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (std::uint64_t{1} << 30));
}

}  // namespace

Result<ReadProbe> probe_reads(const TableSource& source, std::size_t count, ReadMethod method,
                              std::uint64_t seed) {
  const auto file = os::DirectFile::open(source.weight.files().front());
  if (!file) return file.error();
  const auto reader = os::make_block_reader(method);
  if (!reader) return reader.error();
  const std::uint64_t blocks = std::max<std::uint64_t>(1, file->size_bytes() / kReadBytes);
  std::vector<os::BlockRead> reads(count);
  for (std::size_t i = 0; i < count; ++i) {
    reads[i] = {&*file, mix64(seed + i) % blocks * kReadBytes, kReadBytes, 1};
  }
  Ignore ignore;
  const auto begin = std::chrono::steady_clock::now();
  (*reader)->begin(reads, ignore, Priority::now);
  ENGRAM_TRY((*reader)->finish());
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  return ReadProbe{(*reader)->method(), passed.count()};
}

Status drop_cached(std::span<const TableSource> sources) {
  for (const TableSource& source : sources) {
    for (const TensorExtent* tensor : source.tensors()) {
      for (const std::string& path : tensor->files()) ENGRAM_TRY(os::forget_cached(path));
    }
  }
  return {};
}

Result<TierChoice> choose_tier(std::span<const TableSource> sources, const StoreOptions& options) {
  if (sources.empty()) return TierChoice{Tier::mmap, "there are no tables"};
  std::uint64_t needed = 0;
  bool in_memory = true;
  bool cached = true;
  bool short_rows = true;
  for (const TableSource& source : sources) {
    needed += ram_bytes(source, options);
    short_rows = short_rows && direct_can_serve(source.layout);
    in_memory = in_memory && os::is_memory_file(source.weight.path);
    cached = cached && is_cached(source);
  }
  const std::string tables = in_gib(needed);
  if (!options.resident.empty()) {
    return TierChoice{Tier::ram, fmt::format("{} of rows are to be resident", tables)};
  }
  if (in_memory) return TierChoice{Tier::mmap, "the files' file system is memory already"};
  if (cached) return TierChoice{Tier::mmap, "the page cache has the files already"};
  const std::string available = in_gib(os::available_memory_bytes());
  if (memory_fits(needed)) {
    return TierChoice{Tier::ram, fmt::format("{} of tables fit the {} of memory that machine and "
                                             "cgroup have to give",
                                             tables, available)};
  }
  const std::string beyond =
      fmt::format("{} of tables do not fit the {} of memory there are", tables, available);
  if (!short_rows) return TierChoice{Tier::mmap, beyond + ", and rows are too long for direct"};
  const auto probe = probe_reads(sources.front(), kProbeReads, options.read_method, needed);
  if (!probe) return TierChoice{Tier::mmap, fmt::format("{}; {}", beyond, probe.error().message)};
  return TierChoice{Tier::direct,
                    fmt::format("{}; {} reads at once took {:.2f} ms by {}", beyond, kProbeReads,
                                probe->seconds * 1e3, name_of(probe->method))};
}

}  // namespace engram
