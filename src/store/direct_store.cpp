// Tier direct: rows read from the files a batch at a time, past the page cache.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "engram/table.hpp"

#include "base/error.hpp"
#include "checkpoint/table_reader.hpp"
#include "os/memory.hpp"
#include "store/fetch_scratch.hpp"
#include "store/tiers.hpp"

namespace engram {
namespace {

using Want = FetchScratch::Impl::Want;

// A tensor's files as one: raw parts of a GGUF file follow each other.
class PartFiles {
 public:
  static Result<PartFiles> open(const TensorExtent& tensor) {
    PartFiles files;
    std::uint64_t total = 0;
    for (const std::string& path : tensor.files()) {
      auto file = os::DirectFile::open(path);
      if (!file) return std::move(file).error();
      total += file->size_bytes();
      files.files_.push_back(std::make_unique<os::DirectFile>(*std::move(file)));
      files.ends_.push_back(total);
    }
    ENGRAM_TRY(check_extent(tensor, total));
    files.offset_bytes_ = tensor.offset_bytes;
    return files;
  }

  Status check_unchanged() const {
    for (const auto& file : files_) ENGRAM_TRY(file->check_unchanged());
    return {};
  }

  // Adds what is wanted of [at, at + bytes) of the tensor; twice where a raw part ends inside.
  void want(std::uint64_t at, std::size_t bytes, std::uint64_t place,
            std::vector<Want>& wants) const {
    std::uint64_t offset = offset_bytes_ + at;
    std::size_t i = 0;
    while (offset >= ends_[i]) ++i;
    while (bytes > 0) {
      const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
      const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, ends_[i] - offset));
      wants.push_back({files_[i].get(), offset - begin, static_cast<std::uint32_t>(here), place});
      offset += here;
      bytes -= here;
      place += here;
      ++i;
    }
  }

 private:
  std::vector<std::unique_ptr<os::DirectFile>> files_;  // at addresses that reads keep
  std::vector<std::uint64_t> ends_;
  std::uint64_t offset_bytes_ = 0;
};

class DirectStore final : public RowStore {
 public:
  DirectStore(TableSource source, ReadMethod method, std::vector<PartFiles> files,
              std::optional<os::HugeBuffer> scales)
      : source_(std::move(source)),
        method_(method),
        files_(std::move(files)),
        scales_(std::move(scales)) {}

  const TableSource& source() const override { return source_; }
  StoreReport report() const override { return {Tier::direct, source_.held_bytes(), 0, 0, {}}; }

  Status begin(std::span<const RowId> rows, FetchScratch& owner, Priority priority) const override {
    ENGRAM_TRY(check_rows(source_, rows));
    FetchScratch::Impl& scratch = owner.impl();
    ENGRAM_TRY(scratch.make_reader(method_));
    for (const PartFiles& files : files_) ENGRAM_TRY(files.check_unchanged());
    const std::size_t stride = read_bytes();
    const std::size_t bytes = rows.size() * stride;
    if (scratch.rows.size() < bytes) scratch.rows.resize(bytes);
    scratch.source = &source_;
    scratch.wants.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      want_row(*source_.position(rows[i]), i * stride, scratch.wants);
    }
    scratch.plan();
    scratch.reader->begin(scratch.reads, scratch, priority);
    return {};
  }

  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& owner) const override {
    ENGRAM_TRY(check_views(rows, views));
    FetchScratch::Impl& scratch = owner.impl();
    ENGRAM_TRY(scratch.reader->finish());
    const RowSizes sizes = source_.layout.sizes();
    const std::size_t stride = read_bytes();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      views[i] = packed_view(sizes, scratch.rows.data() + i * stride);
      if (!scales_) continue;
      views[i].scales = scales_->bytes().data() + *source_.position(rows[i]) * sizes.scales;
      if (views[i].biases != nullptr) views[i].biases -= sizes.scales;  // which are not in between
    }
    return {};
  }

 private:
  // Bytes of a row that are not resident.
  std::size_t read_bytes() const {
    return source_.layout.row_bytes() - (scales_ ? source_.layout.scale_bytes() : 0);
  }

  void want_row(std::uint64_t position, std::uint64_t place, std::vector<Want>& wants) const {
    const RowLayout& layout = source_.layout;
    switch (source_.placement) {
      case RowPlacement::paged: {
        const std::uint64_t page = position / rows_per_page(layout);
        const std::uint64_t inside = position - page * rows_per_page(layout);
        return files_[0].want(page * kPageBytes + inside * layout.row_bytes(), layout.row_bytes(),
                              place, wants);
      }
      case RowPlacement::interleaved:
        return files_[0].want(position * layout.row_bytes(), layout.row_bytes(), place, wants);
      case RowPlacement::split: {
        const std::array bytes = {layout.code_bytes(), layout.scale_bytes(), layout.bias_bytes()};
        std::size_t file = 0;
        for (std::size_t part = 0; part < bytes.size(); ++part) {
          if (bytes[part] == 0 || (part == 1 && scales_)) continue;
          files_[file++].want(position * bytes[part], bytes[part], place, wants);
          place += bytes[part];
        }
      }
    }
  }

  TableSource source_;
  ReadMethod method_;
  std::vector<PartFiles> files_;          // in the order of the parts that are read
  std::optional<os::HugeBuffer> scales_;  // [held rows, scale_bytes], where they are resident
};

Result<os::HugeBuffer> load_scales(const TensorExtent& tensor) {
  constexpr std::size_t kReadBytes = std::size_t{8} << 20;
  const auto file = open_tensor(tensor);
  if (!file) return file.error();
  auto buffer = os::HugeBuffer::allocate(tensor.size_bytes);
  if (!buffer) return buffer;
  for (std::uint64_t at = 0; at < tensor.size_bytes; at += kReadBytes) {
    const std::size_t bytes = std::min<std::uint64_t>(kReadBytes, tensor.size_bytes - at);
    ENGRAM_TRY((*file)->read_at(tensor.offset_bytes + at, buffer->bytes().subspan(at, bytes)));
  }
  return buffer;
}

}  // namespace

bool direct_can_serve(const RowLayout& layout) {
  return layout.row_bytes() <= os::kBlockReadBytesMax / 2;
}

Result<std::unique_ptr<RowStore>> open_direct_store(const TableSource& source,
                                                    const StoreOptions& options) {
  // A method that is not there is an error now, not at the first lookup.
  const auto probe = os::make_block_reader(options.read_method);
  if (!probe) return probe.error();
  if (!direct_can_serve(source.layout)) {
    return make_error(Code::unsupported, "tier direct reads rows of up to {} bytes, not {}",
                      os::kBlockReadBytesMax / 2, source.layout.row_bytes());
  }
  const bool split = source.placement == RowPlacement::split;
  std::optional<os::HugeBuffer> scales;
  if (split && source.scale && options.resident_scales) {
    auto loaded = load_scales(*source.scale);
    if (!loaded) return std::move(loaded).error();
    scales = *std::move(loaded);
  }
  std::vector<PartFiles> files;
  for (const TensorExtent* tensor :
       {&source.weight, split && source.scale && !scales ? &*source.scale : nullptr,
        split && source.bias ? &*source.bias : nullptr}) {
    if (tensor == nullptr) continue;
    auto opened = PartFiles::open(*tensor);
    if (!opened) return std::move(opened).error();
    files.push_back(*std::move(opened));
  }
  return std::unique_ptr<RowStore>(std::make_unique<DirectStore>(
      source, options.read_method, std::move(files), std::move(scales)));
}

}  // namespace engram
