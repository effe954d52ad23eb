// The head of shared memory: what it holds, and whether it is whole.
#include "store/shared_segment.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <random>
#include <thread>
#include <type_traits>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"
#include "os/file.hpp"

namespace engram {
namespace {

constexpr std::uint64_t kMagic = 0x314D'4853'5247'4E45u;  // "ENGRSHM1", little endian
constexpr std::uint64_t kTableAlignment = std::uint64_t{2} << 20;
constexpr std::size_t kTablesMax = 64;
constexpr std::uint32_t kReady = 1;
constexpr std::chrono::milliseconds kPoll{5};

using Digest = std::array<char, 64>;  // SHA-256 in hexadecimal

struct Table {
  std::int64_t layer_id;
  std::uint64_t offset;
  std::uint64_t bytes;
  Digest identity;
};

// The first bytes of a segment. Only processes of one host read it, so it is as the compiler has
// it.
struct Head {
  std::uint64_t magic;
  std::uint64_t generation;  // drawn at random: no other segment's
  std::uint64_t size_bytes;
  std::uint64_t table_count;
  std::array<Table, kTablesMax> tables;
  Digest check;         // of all above
  std::uint32_t state;  // atomic; kReady once the rows are there
};
static_assert(std::is_trivially_copyable_v<Head>);

Result<Digest> digest_of(std::span<const std::byte> bytes) {
  const auto hex = sha256_hex(bytes);
  if (!hex) return hex.error();
  Digest digest{};
  std::copy(hex->begin(), hex->end(), digest.begin());
  return digest;
}

Result<Digest> check_of(const Head& head) {
  return digest_of({reinterpret_cast<const std::byte*>(&head), offsetof(Head, check)});
}

// What rows a table has and where they came from: its layout, and each file's size and time.
Result<Digest> identity_of(const TableSource& source) {
  const RowLayout& layout = source.layout;
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {}", source.layer_id, row_format_name(layout.format),
                  layout.head_dim, layout.group, layout.bits, layout.wide_scales, source.row_count,
                  static_cast<int>(source.placement), source.page_identity);
  if (source.held) {
    for (const RowRange& range : *source.held) {
      text += fmt::format(" {}-{}", range.begin, range.end);
    }
  }
  for (const TensorExtent* tensor : source.tensors()) {
    text +=
        fmt::format(" {}+{} of {}", tensor->offset_bytes, tensor->size_bytes, tensor->file_bytes);
    for (const std::string& path : tensor->files()) {
      text += fmt::format(" {}", os::modified_ns(path));
    }
  }
  return digest_of(std::as_bytes(std::span(text)));
}

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
}

// Offsets and the whole size, without identity of the segment itself.
Result<Head> plan(std::span<const TableSource> sources) {
  Head head{};
  head.magic = kMagic;
  std::uint64_t at = kTableAlignment;
  for (const TableSource& source : sources) {
    const auto identity = identity_of(source);
    if (!identity) return identity.error();
    head.tables[head.table_count++] = {source.layer_id, at, source.held_bytes(), *identity};
    at = aligned(at + source.held_bytes());
  }
  head.size_bytes = at;
  return head;
}

std::atomic_ref<std::uint32_t> state_of(const os::SharedMemory& memory) {
  return std::atomic_ref(reinterpret_cast<Head*>(memory.bytes().data())->state);
}

const Head& head_of(const os::SharedMemory& memory) {
  return *reinterpret_cast<const Head*>(memory.bytes().data());
}

}  // namespace

Result<SharedSegment> SharedSegment::create(std::span<const TableSource> sources,
                                            const std::string& name) {
  if (sources.size() > kTablesMax) {
    return make_error(Code::unsupported, "shared memory holds {} tables at most, not {}",
                      kTablesMax, sources.size());
  }
  auto planned = plan(sources);
  if (!planned) return std::move(planned).error();
  Head& head = *planned;
  const auto free = os::SharedMemory::free_bytes();
  if (!free) return free.error();
  if (head.size_bytes > *free) {
    return make_error(Code::out_of_memory,
                      "/dev/shm: {} bytes are needed for {} tables, {} are free; a larger one: "
                      "mount -o remount,size=... /dev/shm",
                      head.size_bytes, sources.size(), *free);
  }
  // What a dead process left unfinished makes room; anything else keeps its name.
  if (const auto old = os::SharedMemory::attach(name)) {
    const bool ready = old->bytes().size() >= sizeof(Head) && state_of(*old).load() == kReady;
    if (!ready && !old->being_made()) ENGRAM_TRY(os::SharedMemory::remove(name));
  }
  auto memory = os::SharedMemory::create(name, head.size_bytes);
  if (!memory) return std::move(memory).error();
  std::random_device random;
  head.generation = std::uint64_t{random()} << 32 | random();
  const auto check = check_of(head);
  if (!check) return check.error();
  head.check = *check;
  ENGRAM_TRY(memory->reserve(0, sizeof(Head)));
  std::memcpy(memory->bytes().data(), &head, sizeof(Head));
  return SharedSegment(*std::move(memory));
}

Result<SharedSegment> SharedSegment::attach(const SharedOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.wait;
  for (;;) {
    auto memory = os::SharedMemory::attach(options.name);
    Error why;
    if (!memory) {
      if (memory.error().code != Code::not_found) return std::move(memory).error();
      why = std::move(memory).error();
    } else {
      // Asked before the state: a maker that finishes in between is ready, not dead.
      const bool being_made = memory->being_made();
      SharedSegment segment(*std::move(memory));
      const bool has_head = segment.memory_.bytes().size() >= sizeof(Head);
      if (has_head && state_of(segment.memory_).load(std::memory_order_acquire) == kReady) {
        ENGRAM_TRY(segment.check());
        return segment;
      }
      why = being_made
                ? make_error(Code::unavailable, "{}: it is still being filled", segment.path())
                : make_error(Code::corrupt,
                             "{}: unfinished: the process that filled it has ended; load "
                             "it again",
                             segment.path());
    }
    // A new name has no lock for a moment, so even that is waited for.
    if (std::chrono::steady_clock::now() >= deadline) return why;
    std::this_thread::sleep_for(kPoll);
  }
}

Status SharedSegment::check() const {
  const Head& head = head_of(memory_);
  const auto expected = check_of(head);
  if (!expected) return expected.error();
  if (head.magic != kMagic || head.check != *expected || head.table_count > kTablesMax) {
    return make_error(Code::corrupt, "{}: not shared memory of this version of engram", path());
  }
  if (head.size_bytes == memory_.bytes().size()) return {};
  return make_error(Code::corrupt, "{}: truncated: expected {} bytes, found {}", path(),
                    head.size_bytes, memory_.bytes().size());
}

Result<std::span<std::byte>> SharedSegment::rows(const TableSource& source) const {
  const Head& head = head_of(memory_);
  const auto identity = identity_of(source);
  if (!identity) return identity.error();
  for (const Table& table : std::span(head.tables).first(head.table_count)) {
    if (table.layer_id != source.layer_id) continue;
    if (table.identity != *identity || table.bytes != source.held_bytes() ||
        !range_fits(table.offset, table.bytes, memory_.bytes().size())) {
      return make_error(Code::corrupt,
                        "{}: layer {} is of another model, or of an earlier state of {}", path(),
                        source.layer_id, source.weight.path);
    }
    return memory_.bytes().subspan(table.offset, table.bytes);
  }
  return make_error(Code::corrupt, "{}: of another model: it has no layer {}", path(),
                    source.layer_id);
}

void SharedSegment::set_ready() { state_of(memory_).store(kReady, std::memory_order_release); }

}  // namespace engram
