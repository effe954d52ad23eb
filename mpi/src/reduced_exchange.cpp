// Exchange::reduced: one common batch, of which every rank fills in what it owns; all are combined.
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "row_exchange.hpp"

namespace engram::mpi {
namespace {

class ReducedExchange final : public RowExchange {
 public:
  explicit ReducedExchange(OwnRows own) : own_(std::move(own)) {}

  Result<std::shared_ptr<Part>> begin(std::size_t table, std::span<const RowId> rows,
                                      Priority priority) override;
  bool ready(Part& part) override { return part.over; }
  Status finish(Part& part) override;
  ExchangeStats stats() const override;
  void give_back(std::shared_ptr<Part>) override {}

 private:
  Status check_same_batch(const Part& part);
  Status combine(Part& part);

  mutable std::mutex mutex_;
  OwnRows own_;
  Status failure_;
  ExchangeStats stats_;
};

Result<std::shared_ptr<Part>> ReducedExchange::begin(std::size_t table, std::span<const RowId> rows,
                                                     Priority priority) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) return failure_.error();
  auto part = std::make_shared<Part>();
  own_.plan(table, rows, priority, *part);
  return part;
}

Status ReducedExchange::finish(Part& part) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) return failure_.error();
  if (Status status = own_.channel->usable(); !status) return failure_ = status;
  if (Status status = check_same_batch(part); !status) return failure_ = status;
  if (Status status = combine(part); !status) return failure_ = status;
  part.over = true;
  return part.status;
}

// The order of rows is what decides their places, so it is compared whole.
Status ReducedExchange::check_same_batch(const Part& part) {
  std::vector<std::byte> batch(sizeof(std::uint64_t));
  const std::uint64_t head = part.table << 1 | (part.status ? 1 : 0);
  std::memcpy(batch.data(), &head, sizeof(head));
  std::vector<RowId> rows(part.rows.size() / own_.layout(part.table).row_bytes());
  for (std::size_t rank = 0; rank < part.wanted.size(); ++rank) {
    for (std::size_t i = 0; i < part.wanted[rank].size(); ++i) {
      rows[part.places[rank][i]] = part.wanted[rank][i];
    }
  }
  const auto bytes = std::as_bytes(std::span(rows));
  batch.insert(batch.end(), bytes.begin(), bytes.end());
  const auto all = own_.channel->gather(batch);
  if (!all) return all.error();
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank] == batch) continue;
    return Error{Code::unavailable, 0,
                 "ranks are out of step: rank " + std::to_string(rank) +
                     " looks up other rows than rank " + std::to_string(own_.channel->rank()) +
                     ", or failed to begin"};
  }
  stats_.bytes_sent += batch.size();
  stats_.bytes_received += batch.size() * (all->size() - 1);
  return {};
}

// Zeros where another rank owns the row. The last byte is not 0 where a rank could not read.
Status ReducedExchange::combine(Part& part) {
  Status read = part.status ? own_.take_own(part) : part.status;
  part.rows.push_back(read ? std::byte{0} : std::byte{1});
  ++stats_.exchanges;
  stats_.bytes_sent += part.rows.size();
  stats_.bytes_received += part.rows.size();
  ENGRAM_TRY(own_.channel->combine(part.rows));
  const bool failed = part.rows.back() != std::byte{0};
  part.rows.pop_back();
  if (read && failed) {
    read = Error{Code::unavailable, 0, "another rank could not read its rows of this batch"};
  }
  part.status = read;
  return {};
}

ExchangeStats ReducedExchange::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

}  // namespace

std::unique_ptr<RowExchange> make_reduced_exchange(OwnRows own) {
  return std::make_unique<ReducedExchange>(std::move(own));
}

}  // namespace engram::mpi
