// Lookups in two halves: begun now, waited for later.
#include <utility>

#include "base/error.hpp"
#include "memory/lookup.hpp"

namespace engram {

std::unique_ptr<LookupWorkspace::Impl> Ticket::Pool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<LookupWorkspace::Impl>();
  auto lookup = std::move(free_.back());
  free_.pop_back();
  return lookup;
}

void Ticket::Pool::put(std::unique_ptr<LookupWorkspace::Impl> lookup) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(lookup));
}

Ticket::Ticket() = default;
Ticket::Ticket(Ticket&& other) noexcept = default;

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(lookup_, other.lookup_);
  return *this;
}

Ticket::~Ticket() { cancel(); }

bool Ticket::ready() const { return lookup_ == nullptr || lookup_->fetch.ready(); }

void Ticket::cancel() {
  if (lookup_ == nullptr) return;
  lookup_->fetch.cancel();
  pool_->put(std::move(lookup_));
}

Result<Ticket> Memory::prefetch(int table_index, std::span<const Key> keys,
                                Priority priority) const {
  const auto heads = static_cast<std::size_t>(hasher_.spec().config().heads);
  ENGRAM_TRY(check_table(table_index, keys.size() * heads));
  Ticket ticket;
  ticket.pool_ = tickets_;
  ticket.lookup_ = tickets_->take();
  ENGRAM_TRY(plan(table_index, keys, *ticket.lookup_));
  ENGRAM_TRY(begin(*ticket.lookup_, priority));
  return ticket;
}

Status Memory::wait(Ticket& ticket, const RowOutput& output) const {
  if (!ticket.pending() || ticket.pool_ != tickets_) {
    return make_error(Code::invalid_argument, "wait: the ticket {}",
                      ticket.pending() ? "is of another memory" : "has no lookup pending");
  }
  Ticket spent = std::move(ticket);
  Lookup& lookup = *spent.lookup_;
  const auto checked = check_output(lookup.table_index, lookup.row_count, output);
  if (!checked) return checked.error();
  return finish(lookup, *checked);
}

}  // namespace engram
