// Tier ram: a private copy of the table, codes and scales interleaved, in huge pages.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "checkpoint/table_reader.hpp"
#include "os/memory.hpp"
#include "os/numa.hpp"
#include "store/fetch_scratch.hpp"
#include "store/resident_rows.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

// The rows in memory: once, or once on every node.
class Copies {
 public:
  static Result<Copies> allocate(std::uint64_t bytes, const RamOptions& options) {
    Copies copies;
    const std::vector<int>& nodes = os::numa_nodes();
    const bool each = options.numa == NumaPolicy::copies;
    for (std::size_t i = 0; i < (each ? nodes.size() : 1); ++i) {
      auto buffer = os::HugeBuffer::allocate(bytes, options.pages);
      if (!buffer) return std::move(buffer).error();
      if (each) {
        ENGRAM_TRY(os::bind_to_node(buffer->bytes(), nodes[i]));
        copies.of_node_.resize(static_cast<std::size_t>(nodes[i]) + 1);
        copies.of_node_.back() = i;
      }
      if (options.numa == NumaPolicy::interleave) ENGRAM_TRY(os::interleave_nodes(buffer->bytes()));
      copies.buffers_.push_back(*std::move(buffer));
    }
    return copies;
  }

  // For the processor that asks.
  const std::byte* nearest() const {
    if (buffers_.size() == 1) return buffers_.front().bytes().data();
    const auto node = static_cast<std::size_t>(os::current_numa_node());
    return buffers_[node < of_node_.size() ? of_node_[node] : 0].bytes().data();
  }

  const std::vector<os::HugeBuffer>& buffers() const { return buffers_; }

 private:
  std::vector<os::HugeBuffer> buffers_;
  std::vector<std::size_t> of_node_;  // index of a buffer
};

class RamStore final : public RowStore {
 public:
  RamStore(TableReader reader, std::unique_ptr<ResidentRows> resident, Copies copies,
           std::unique_ptr<RowStore> rest, StoreOptions options)
      : reader_(std::move(reader)),
        resident_(std::move(resident)),
        copies_(std::move(copies)),
        rest_(std::move(rest)),
        options_(std::move(options)) {}

  ~RamStore() override {
    stop_ = true;
    if (loader_.joinable()) loader_.join();
  }

  const TableSource& source() const override { return reader_.source(); }

  StoreReport report() const override {
    const std::uint64_t resident = resident_->loaded_rows() * source().layout.row_bytes();
    StoreReport report{Tier::ram, source().held_bytes(), resident, huge_bytes_, {}};
    const std::lock_guard lock(mutex_);
    report.loading = failure_;
    return report;
  }

  Status begin(std::span<const RowId> rows, FetchScratch& scratch,
               Priority priority) const override {
    ENGRAM_TRY(check_rows(source(), rows));
    FetchScratch::Impl::Rest& rest = scratch.impl().rest;
    rest.rows.clear();
    rest.places.clear();
    if (resident_->complete()) return {};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (resident_->find(*source().position(rows[i]))) continue;
      rest.rows.push_back(rows[i]);
      rest.places.push_back(i);
    }
    return rest.rows.empty() ? Status() : rest_->begin(rest.rows, scratch, priority);
  }

  // What begin left to the other store comes from there, also where it has been loaded since.
  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& scratch) const override {
    ENGRAM_TRY(check_views(rows, views));
    FetchScratch::Impl::Rest& rest = scratch.impl().rest;
    rest.views.resize(rest.rows.size());
    if (!rest.rows.empty()) ENGRAM_TRY(rest_->finish(rest.rows, rest.views, scratch));
    const std::byte* base = copies_.nearest();
    const RowSizes sizes = source().layout.sizes();
    const bool complete = resident_->complete();
    std::size_t next = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (next < rest.places.size() && rest.places[next] == i) {
        views[i] = rest.views[next++];
        continue;
      }
      const std::uint64_t position = *source().position(rows[i]);
      const std::uint64_t number = complete ? position : *resident_->find(position);
      views[i] = packed_view(sizes, base + number * sizes.total());
    }
    return {};
  }

  Status load() {
    ENGRAM_TRY(resident_->load(options_.threads, source().layout.row_bytes(), options_.progress,
                               [&](const ResidentRows::Chunk& chunk) -> Status {
                                 if (!stop_) return load_chunk(chunk);
                                 return make_error(Code::unavailable, "loading was given up");
                               }));
    huge_bytes_ = std::min<std::uint64_t>(resident_->count() * source().layout.row_bytes(),
                                          copies_.buffers().front().huge_bytes());
    if (!options_.ram.lock) return {};
    for (const os::HugeBuffer& buffer : copies_.buffers()) ENGRAM_TRY(buffer.lock());
    return {};
  }

  void load_behind() {
    options_.progress = nullptr;
    loader_ = std::thread([this] {
      Status status = load();
      const std::lock_guard lock(mutex_);
      failure_ = std::move(status);
    });
  }

 private:
  Status load_chunk(const ResidentRows::Chunk& chunk) const {
    const std::size_t row_bytes = source().layout.row_bytes();
    const auto part = [&](const os::HugeBuffer& buffer) {
      return buffer.bytes().subspan(chunk.first * row_bytes, chunk.count * row_bytes);
    };
    const std::span<std::byte> rows = part(copies_.buffers().front());
    ENGRAM_TRY(reader_.read(chunk.position, chunk.count, rows));
    for (std::size_t copy = 1; copy < copies_.buffers().size(); ++copy) {
      std::memcpy(part(copies_.buffers()[copy]).data(), rows.data(), rows.size());
    }
    return {};
  }

  TableReader reader_;
  std::unique_ptr<ResidentRows> resident_;
  Copies copies_;                   // [copies][resident rows, row_bytes]
  std::unique_ptr<RowStore> rest_;  // for rows that are not there; null where there are none
  StoreOptions options_;
  std::atomic<std::uint64_t> huge_bytes_{0};  // once all is loaded: asking reads all of smaps
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  Status failure_;  // protected by mutex_
  std::thread loader_;
};

// The store for rows that are not in memory. Scales stay on disk where it serves for a while only.
Result<std::unique_ptr<RowStore>> open_rest(const TableSource& source, StoreOptions options) {
  options.resident_scales = options.resident_scales && !options.resident.empty();
  options.progress = nullptr;
  return direct_can_serve(source.layout) ? open_direct_store(source, options)
                                         : open_mmap_store(source);
}

}  // namespace

std::uint64_t ram_bytes(const TableSource& source, const StoreOptions& options) {
  const std::uint64_t copies = options.ram.numa == NumaPolicy::copies ? os::numa_nodes().size() : 1;
  const std::uint64_t rows = options.resident.empty()
                                 ? source.held_count()
                                 : ResidentRows(source, options.resident).count();
  return rows * source.layout.row_bytes() * copies;
}

Result<std::unique_ptr<RowStore>> open_ram_store(const TableSource& source,
                                                 const StoreOptions& options) {
  auto reader = TableReader::open(source);
  if (!reader) return std::move(reader).error();
  auto resident = std::make_unique<ResidentRows>(source, options.resident);
  std::unique_ptr<RowStore> rest;
  if (options.ram.serve_while_loading || resident->count() < source.held_count()) {
    auto opened = open_rest(source, options);
    if (!opened || resident->count() == 0) return opened;
    rest = *std::move(opened);
  }
  auto copies = Copies::allocate(resident->count() * source.layout.row_bytes(), options.ram);
  if (!copies) return std::move(copies).error();
  auto store = std::make_unique<RamStore>(*std::move(reader), std::move(resident),
                                          *std::move(copies), std::move(rest), options);
  if (options.ram.serve_while_loading) {
    store->load_behind();
  } else {
    ENGRAM_TRY(store->load());
  }
  return std::unique_ptr<RowStore>(std::move(store));
}

}  // namespace engram
