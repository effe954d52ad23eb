// What FetchScratch holds: a reader of its own, a plan of reads, and the rows they brought.
#include "store/fetch_scratch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engram/table.hpp"

namespace engram {
namespace {

void extend(os::BlockRead& read, std::uint64_t end, std::uint64_t needed_end, bool paged) {
  read.size = std::max(read.size, static_cast<std::uint32_t>(end - read.offset));
  read.needed =
      std::max(read.needed, static_cast<std::uint32_t>((paged ? end : needed_end) - read.offset));
}

}  // namespace

FetchScratch::FetchScratch() : impl_(std::make_unique<Impl>()) {}
FetchScratch::FetchScratch(FetchScratch&&) noexcept = default;
FetchScratch& FetchScratch::operator=(FetchScratch&&) noexcept = default;
FetchScratch::~FetchScratch() = default;

bool FetchScratch::ready() {
  if (impl_->held != nullptr && !impl_->held->ready()) return false;
  return impl_->reader == nullptr || impl_->reader->poll();
}
void FetchScratch::hold(std::unique_ptr<PendingFetch> pending) { impl_->held = std::move(pending); }
PendingFetch* FetchScratch::held() const { return impl_->held.get(); }
void FetchScratch::cancel() {
  impl_->held.reset();
  if (impl_->reader != nullptr) impl_->reader->cancel();
}
const ReadCounts& FetchScratch::counts() const { return impl_->counts; }

// Reads in flight write to the members below.
FetchScratch::Impl::~Impl() {
  if (reader != nullptr) reader->cancel();
}

Status FetchScratch::Impl::make_reader(ReadMethod method) {
  if (reader != nullptr && asked == method) {
    reader->cancel();
    return {};
  }
  auto made = os::make_block_reader(method);
  if (!made) return std::move(made).error();
  reader = *std::move(made);
  asked = method;
  return {};
}

void FetchScratch::Impl::plan() {
  std::sort(wants.begin(), wants.end(), [](const Want& a, const Want& b) {
    return std::pair(a.file->serial(), a.offset) < std::pair(b.file->serial(), b.offset);
  });
  reads.clear();
  windows.clear();
  const bool paged = source->placement == RowPlacement::paged;
  for (std::size_t i = 0; i < wants.size(); ++i) {
    const Want& want = wants[i];
    // A page is checked whole, so it is read whole.
    const std::uint64_t alignment = paged ? kPageBytes : want.file->alignment();
    const std::uint64_t begin = want.offset / alignment * alignment;
    const std::uint64_t end = (want.offset + want.bytes + alignment - 1) / alignment * alignment;
    if (!reads.empty()) {
      os::BlockRead& last = reads.back();
      const bool touches = last.file == want.file && begin <= last.offset + last.size;
      if (touches && end - last.offset <= os::kBlockReadBytesMax) {
        extend(last, end, want.offset + want.bytes, paged);
        windows.back().end_want = i + 1;
        continue;
      }
    }
    reads.push_back({want.file, begin, 0, 0});
    extend(reads.back(), end, want.offset + want.bytes, paged);
    windows.push_back({i, i + 1});
  }
  counts.reads += reads.size();
  for (const os::BlockRead& read : reads) counts.bytes += read.size;
}

Status FetchScratch::Impl::take(std::size_t read, std::span<const std::byte> bytes) {
  const os::BlockRead& from = reads[read];
  if (source->placement == RowPlacement::paged) ENGRAM_TRY(check_pages(from, bytes));
  const Window& window = windows[read];
  for (std::size_t i = window.first_want; i < window.end_want; ++i) {
    const Want& want = wants[i];
    std::memcpy(rows.data() + want.place, bytes.data() + (want.offset - from.offset), want.bytes);
  }
  return {};
}

Status FetchScratch::Impl::check_pages(const os::BlockRead& from,
                                       std::span<const std::byte> bytes) const {
  const std::uint64_t first = (from.offset - source->weight.offset_bytes) / kPageBytes;
  for (std::size_t i = 0; i < from.size / kPageBytes; ++i) {
    ENGRAM_TRY(check_page(bytes.subspan(i * kPageBytes, kPageBytes), first + i,
                          source->page_identity, source->weight.path));
  }
  return {};
}

}  // namespace engram
