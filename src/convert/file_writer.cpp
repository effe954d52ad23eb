// Writes one planned file: makes its units in parallel, hashes in the same pass, keeps a journal.
#include "convert/file_writer.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/buffer_pool.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/sha256.hpp"

namespace engram {
namespace {

// Of all pieces alive at once, with what they are made from.
constexpr std::size_t kWindowBytes = std::size_t{160} << 20;
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;

// Takes the file's bytes in order; what does not come in order is read back from the file.
class FileHash {
 public:
  static Result<FileHash> create(const OutputFile& file, std::string path) {
    auto hash = Sha256::create();
    if (!hash) return std::move(hash).error();
    FileHash result(*std::move(hash), std::move(path));
    result.hash_.update(std::as_bytes(std::span(file.header)));
    result.position_ = file.header.size();
    return result;
  }

  // Bytes at an offset of the file; ignored unless they are the next ones.
  void offer(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (offset != position_) return;
    hash_.update(bytes);
    position_ += bytes.size();
  }

  // Reads everything up to `end` that was not offered.
  Status catch_up(std::uint64_t end) {
    if (position_ >= end) return {};
    const auto file = os::open_file(path_);
    if (!file) return file.error();
    std::vector<std::byte> buffer(kPieceBytes);
    while (position_ < end) {
      const auto bytes = std::span(buffer).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - position_)));
      ENGRAM_TRY((*file)->read_at(position_, bytes));
      offer(position_, bytes);
    }
    return {};
  }

  Result<std::string> finish() { return hash_.finish_hex(); }

 private:
  FileHash(Sha256 hash, std::string path) : hash_(std::move(hash)), path_(std::move(path)) {}
  Sha256 hash_;
  std::string path_;
  std::uint64_t position_ = 0;
};

// Units of one stretch of a stream, laid out part by part.
struct Piece {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  BufferPool::Buffer buffer;
};

// Brings pieces that are made in any order into their own: whoever brings the next one hashes it
// and all that wait behind it. Pieces too far ahead wait, which bounds memory.
class InOrder {
 public:
  InOrder(std::size_t window, std::function<void(const Piece&)> use)
      : window_(window), use_(std::move(use)) {}

  // Returns when piece `index` may be made; false where another has failed.
  bool wait_for_room(std::size_t index) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return failed_ || index < next_ + window_; });
    return !failed_;
  }

  void bring(std::size_t index, Piece piece) {
    std::unique_lock lock(mutex_);
    waiting_.emplace(index, std::move(piece));
    if (busy_) return;
    busy_ = true;
    for (auto found = waiting_.find(next_); found != waiting_.end(); found = waiting_.find(next_)) {
      const Piece ready = std::move(found->second);
      waiting_.erase(found);
      lock.unlock();
      use_(ready);
      lock.lock();
      ++next_;
      room_.notify_all();
    }
    busy_ = false;
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    room_.notify_all();
  }

 private:
  std::size_t window_;
  std::function<void(const Piece&)> use_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::map<std::size_t, Piece> waiting_;
  std::size_t next_ = 0;
  bool busy_ = false;
  bool failed_ = false;
};

class StreamWriter {
 public:
  StreamWriter(const FileJob& job, const Stream& stream, os::WritableFile& file, FileHash& hash,
               BufferPool& buffers)
      : job_(job), stream_(stream), file_(file), hash_(hash), buffers_(buffers) {
    const std::size_t unit_cost = 2 * stream.unit_bytes() + stream.input_bytes;
    // Half of the workers wait for the device while the other half computes.
    workers_ = std::max(1, job.threads) == 1 ? 1 : 2 * job.threads + 1;
    window_ = 2 * static_cast<std::size_t>(workers_);
    const std::size_t piece_bytes = std::min(kPieceBytes, kWindowBytes / window_);
    piece_units_ = std::max<std::size_t>(1, piece_bytes / unit_cost);
  }

  // Units [first, end), which lie between two checkpoints.
  Status write(std::uint64_t first, std::uint64_t end) {
    InOrder in_order(window_, [&](const Piece& piece) { offer(piece); });
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<std::uint64_t> units{0};
    const auto report = [&] { job_.wrote(units.exchange(0) * stream_.unit_bytes()); };
    const std::size_t count = (end - first + piece_units_ - 1) / piece_units_;
    ENGRAM_TRY(parallel_for(count, workers_, [&](std::size_t i) -> Status {
      if (!in_order.wait_for_room(i)) return {};
      Piece piece{first + i * piece_units_, 0, {}};
      piece.count = std::min<std::uint64_t>(piece_units_, end - piece.first);
      if (Status status = make(piece); !status) {
        in_order.fail();
        return status;
      }
      units += piece.count;
      in_order.bring(i, std::move(piece));
      if (std::this_thread::get_id() == caller) report();
      return {};
    }));
    report();
    return {};
  }

 private:
  std::uint64_t offset(const Stream::Part& part, std::uint64_t unit) const {
    return job_.file.tensors[part.tensor].offset_bytes + unit * part.unit_bytes;
  }

  void offer(const Piece& piece) {
    const Stream::Part& part = stream_.parts.front();
    hash_.offer(offset(part, piece.first),
                piece.buffer.bytes().first(piece.count * part.unit_bytes));
  }

  Status make(Piece& piece) {
    const std::size_t unit_bytes = stream_.unit_bytes();
    const std::uint64_t first_offset = offset(stream_.parts.front(), piece.first);
    auto units = buffers_.take(piece.count * unit_bytes, first_offset);
    ENGRAM_TRY(stream_.produce(piece.first, piece.count, units.bytes()));
    if (stream_.parts.size() == 1) {
      piece.buffer = std::move(units);
    } else {
      piece.buffer = buffers_.take(units.bytes().size(), first_offset);
      std::byte* out = piece.buffer.bytes().data();
      const std::byte* column = units.bytes().data();
      for (const Stream::Part& part : stream_.parts) {
        for (std::uint64_t unit = 0; unit < piece.count; ++unit, out += part.unit_bytes) {
          std::memcpy(out, column + unit * unit_bytes, part.unit_bytes);
        }
        column += part.unit_bytes;
      }
    }
    std::span<const std::byte> rest = piece.buffer.bytes();
    for (const Stream::Part& part : stream_.parts) {
      const std::size_t bytes = piece.count * part.unit_bytes;
      ENGRAM_TRY(file_.write_at(offset(part, piece.first), rest.first(bytes)));
      file_.start_writing(offset(part, piece.first), bytes);
      rest = rest.subspan(bytes);
    }
    return {};
  }

  const FileJob& job_;
  const Stream& stream_;
  os::WritableFile& file_;
  FileHash& hash_;
  BufferPool& buffers_;
  int workers_;
  std::size_t window_;  // pieces alive at once
  std::size_t piece_units_;
};

Status write_stream(const FileJob& job, std::size_t index, os::WritableFile& file, FileHash& hash,
                    Journal& journal) {
  const Stream& stream = job.file.streams[index];
  ENGRAM_TRY(hash.catch_up(job.file.tensors[stream.parts.front().tensor].offset_bytes));
  const std::uint64_t done = std::min(journal.units_done(job.index, index), stream.units);
  if (done != 0) job.wrote(done * stream.unit_bytes());
  BufferPool buffers;
  for (std::uint64_t first = done; first < stream.units;) {
    const std::uint64_t end = std::min(
        stream.units, (first / stream.units_per_checkpoint + 1) * stream.units_per_checkpoint);
    ENGRAM_TRY(StreamWriter(job, stream, file, hash, buffers).write(first, end));
    ENGRAM_TRY(file.sync());
    ENGRAM_TRY(journal.record_units(job.index, index, end));
    first = end;
  }
  return {};
}

}  // namespace

Result<std::string> write_file(const FileJob& job, Journal& journal) {
  if (auto digest = journal.digest(job.index)) {
    job.wrote(job.file.file_bytes - job.file.header.size());
    return *std::move(digest);
  }
  auto file = os::path_exists(job.path) ? os::WritableFile::open_existing(job.path)
                                        : os::WritableFile::create(job.path);
  if (!file) return std::move(file).error();
  ENGRAM_TRY(file->allocate(job.file.file_bytes));
  file->prefer_direct();
  auto hash = FileHash::create(job.file, job.path);
  if (!hash) return std::move(hash).error();
  for (std::size_t i = 0; i < job.file.streams.size(); ++i) {
    ENGRAM_TRY(write_stream(job, i, *file, *hash, journal));
  }
  ENGRAM_TRY(hash->catch_up(job.file.file_bytes));
  ENGRAM_TRY(file->write_at(0, std::as_bytes(std::span(job.file.header))));
  ENGRAM_TRY(file->sync_and_close());
  auto digest = hash->finish();
  if (!digest) return digest;
  ENGRAM_TRY(journal.record_done(job.index, *digest));
  return digest;
}

}  // namespace engram
