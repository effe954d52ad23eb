// Exchange::packed: rounds of lookups in which ranks ask the owners of rows and answer each other.
#include "packed_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "wire.hpp"

namespace engram::mpi {
namespace {

std::uint64_t bit_of(std::size_t table) { return std::uint64_t{1} << table; }

// Puts values one after another into a message that has room for them.
class MessageWriter {
 public:
  explicit MessageWriter(std::vector<std::byte>& bytes) : at_(bytes.data()) {}
  template <typename T>
  void write(const T* values, std::size_t count) {
    if (count != 0) std::memcpy(at_, values, count * sizeof(T));
    at_ += count * sizeof(T);
  }
  std::byte* at() const { return at_; }

 private:
  std::byte* at_;
};

// Takes values off the front of a message; false where it is too short.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  bool read(T* values, std::size_t count) {
    if (count > bytes_.size() / sizeof(T)) return false;
    if (count != 0) std::memcpy(values, bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
    return true;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

Error protocol_error(int rank, const std::string& what) {
  return Error{Code::internal, 0, "rank " + std::to_string(rank) + " sent " + what};
}

Error out_of_step(std::uint64_t round, int rank_a, std::uint64_t a, int rank_b, std::uint64_t b) {
  return Error{Code::unavailable, 0,
               "ranks are out of step: exchange " + std::to_string(round) +
                   " looks up tables (as bits) " + std::to_string(a) + " on rank " +
                   std::to_string(rank_a) + " and " + std::to_string(b) + " on rank " +
                   std::to_string(rank_b)};
}

}  // namespace

PackedExchange::PackedExchange(OwnRows own) : own_(std::move(own)) {}

PackedExchange::~PackedExchange() {
  const std::scoped_lock lock(mutex_);
  Status status = own_.channel->usable();
  if (status && open_ != nullptr) status = send_round();
  if (!status || !failure_) return;
  // Nobody is left to tell: others find out by their own timeout.
  static_cast<void>(own_.channel->wait("others did not end their lookups", [&]() -> Result<bool> {
    if (Status moved = move_on(); !moved) return std::move(moved).error();
    return sent_.empty() && replies_.empty();
  }));
}

ExchangeStats PackedExchange::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

Status PackedExchange::fail(Status status) {
  if (!status && failure_) failure_ = status;
  return status;
}

Result<std::shared_ptr<Part>> PackedExchange::begin(std::size_t table, std::span<const RowId> rows,
                                                    Priority priority) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) return failure_.error();
  ENGRAM_TRY(fail(own_.channel->usable()));
  std::shared_ptr<Part> part;
  if (idle_parts_.empty()) {
    part = std::make_shared<Part>();
  } else {
    part = std::move(idle_parts_.back());
    idle_parts_.pop_back();
  }
  own_.plan(table, rows, priority, *part);
  // A table no later than the last one of the round is the next step's.
  if (open_ != nullptr && open_->parts.back()->table >= table) ENGRAM_TRY(fail(send_round()));
  if (open_ == nullptr) {
    open_ = std::make_shared<Round>();
    open_->number = next_round_++;
    open_->peers.resize(static_cast<std::size_t>(own_.channel->world()));
  }
  open_->parts.push_back(part);
  if (table + 1 == own_.stores.size()) ENGRAM_TRY(fail(send_round()));
  ENGRAM_TRY(fail(move_on()));
  return part;
}

Status PackedExchange::send_round() {
  const std::shared_ptr<Round> round = std::exchange(open_, nullptr);
  std::uint64_t tables = 0;
  for (const auto& part : round->parts) tables |= bit_of(part->table);
  sent_.push_back(round);
  ++stats_.exchanges;
  for (const auto& part : round->parts) part->sent = true;
  for (int rank = 0; rank < own_.channel->world(); ++rank) {
    if (rank != own_.channel->rank()) ENGRAM_TRY(send_request(*round, rank));
  }
  // Others may have been here before.
  if (const auto asked = asked_.find(round->number); asked != asked_.end()) {
    return check_round(asked->second.first_rank, round->number, asked->second.tables);
  }
  return {};
}

Status PackedExchange::send_request(Round& round, int rank) {
  const auto to = static_cast<std::size_t>(rank);
  Peer& peer = round.peers[to];
  RequestHeader header{round.number, 0};
  std::vector<std::uint32_t> counts;
  std::size_t rows = 0;
  std::size_t reply_bytes = 0;
  for (const auto& part : round.parts) {
    header.tables |= bit_of(part->table);
    counts.push_back(static_cast<std::uint32_t>(part->wanted[to].size()));
    rows += part->wanted[to].size();
    reply_bytes += part->wanted[to].size() * own_.layout(part->table).row_bytes();
  }
  peer.request = Transfer(
      buffers_.take(sizeof(header) + counts.size() * sizeof(std::uint32_t) + rows * sizeof(RowId)));
  MessageWriter writer(peer.request.bytes());
  writer.write(&header, 1);
  writer.write(counts.data(), counts.size());
  for (const auto& part : round.parts) {
    writer.write(part->wanted[to].data(), part->wanted[to].size());
  }
  if (reply_bytes != 0) {
    peer.expects_reply = true;
    peer.reply =
        Transfer(buffers_.take(sizeof(ReplyHeader) + std::max(reply_bytes, kMessageBytesMax)));
    ENGRAM_TRY(own_.channel->receive(rank, kReplyTag, peer.reply));
  }
  stats_.rows_asked += rows;
  stats_.bytes_sent += peer.request.bytes().size();
  return own_.channel->send(rank, kRequestTag, peer.request);
}

// Answers what has come, and forgets rounds and replies that are over.
Status PackedExchange::move_on() {
  while (true) {
    auto message = own_.channel->poll(kRequestTag, buffers_);
    if (!message) return std::move(message).error();
    if (!*message) break;
    ENGRAM_TRY(answer(std::move(**message)));
  }
  while (!replies_.empty()) {
    const auto done = own_.channel->done(replies_.front());
    if (!done) return done.error();
    if (!*done) break;
    buffers_.put(replies_.front().release());
    replies_.pop_front();
  }
  while (!sent_.empty()) {
    const auto over = round_over(*sent_.front());
    if (!over) return over.error();
    if (!*over) break;
    close_round(*sent_.front());
    sent_.pop_front();
  }
  return {};
}

Status PackedExchange::check_round(int rank, std::uint64_t round, std::uint64_t tables) {
  for (const auto& mine : sent_) {
    if (mine->number != round) continue;
    std::uint64_t own_tables = 0;
    for (const auto& part : mine->parts) own_tables |= bit_of(part->table);
    if (own_tables == tables) return {};
    return out_of_step(round, rank, tables, own_.channel->rank(), own_tables);
  }
  return {};
}

Status PackedExchange::parse(const Channel::Message& message, Request& request) const {
  const auto wrong = [&] {
    return protocol_error(message.rank, "a request of " + std::to_string(message.bytes->size()) +
                                            " bytes that does not add up");
  };
  RequestHeader header{};
  MessageReader reader(*message.bytes);
  if (!reader.read(&header, 1)) return wrong();
  request.round = header.round;
  request.tables = header.tables;
  request.table.clear();
  request.reply_bytes = 0;
  for (std::size_t table = 0; table < kTablesMax; ++table) {
    if ((header.tables & bit_of(table)) != 0) request.table.push_back(table);
  }
  if (request.table.empty() || request.table.back() >= own_.stores.size()) return wrong();
  std::vector<std::uint32_t> counts(request.table.size());
  if (!reader.read(counts.data(), counts.size())) return wrong();
  request.rows.resize(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > message.bytes->size() / sizeof(RowId)) return wrong();
    request.rows[i].resize(counts[i]);
    if (!reader.read(request.rows[i].data(), counts[i])) return wrong();
    request.reply_bytes += counts[i] * own_.layout(request.table[i]).row_bytes();
  }
  if (!reader.empty()) return wrong();
  return {};
}

Status PackedExchange::answer(Channel::Message message) {
  ENGRAM_TRY(parse(message, request_));
  stats_.bytes_received += message.bytes->size();
  buffers_.put(std::move(message.bytes));
  Asked& asked = asked_[request_.round];
  if (asked.ranks++ == 0) {
    asked.tables = request_.tables;
    asked.first_rank = message.rank;
  } else if (asked.tables != request_.tables) {
    return out_of_step(request_.round, asked.first_rank, asked.tables, message.rank,
                       request_.tables);
  }
  ENGRAM_TRY(check_round(message.rank, request_.round, request_.tables));
  if (request_.reply_bytes == 0) return {};
  Transfer reply(
      buffers_.take(sizeof(ReplyHeader) + std::max(request_.reply_bytes, kMessageBytesMax)));
  ReplyHeader header{request_.round, 0, 0};
  MessageWriter writer(reply.bytes());
  writer.write(&header, 1);
  if (const Status status = read_rows(request_, writer.at()); !status) {
    const std::string& text = status.error().message;
    header.code = static_cast<std::int32_t>(status.error().code);
    header.message_bytes = static_cast<std::uint32_t>(std::min(text.size(), kMessageBytesMax));
    MessageWriter again(reply.bytes());
    again.write(&header, 1);
    again.write(text.data(), header.message_bytes);
    reply.bytes().resize(sizeof(header) + header.message_bytes);
  } else {
    reply.bytes().resize(sizeof(header) + request_.reply_bytes);
  }
  stats_.bytes_sent += reply.bytes().size();
  ENGRAM_TRY(own_.channel->send(message.rank, kReplyTag, reply));
  replies_.push_back(std::move(reply));
  return {};
}

// The stored rows of a request, all tables one after another.
Status PackedExchange::read_rows(const Request& request, std::byte* out) {
  for (std::size_t i = 0; i < request.rows.size(); ++i) {
    const std::vector<RowId>& rows = request.rows[i];
    if (rows.empty()) continue;
    const RowStore& store = *own_.stores[request.table[i]];
    serving_views_.resize(rows.size());
    ENGRAM_TRY(store.fetch(rows, serving_views_, serving_));
    const RowSizes sizes = store.source().layout.sizes();
    for (std::size_t row = 0; row < rows.size(); ++row, out += sizes.total()) {
      if (row + kPrefetchRows < rows.size()) {
        prefetch_row(sizes, serving_views_[row + kPrefetchRows]);
      }
      pack_row(sizes, serving_views_[row], out);
    }
    stats_.rows_answered += rows.size();
  }
  return {};
}

Result<bool> PackedExchange::round_over(Round& round) {
  const auto asked = asked_.find(round.number);
  bool over = own_.channel->world() == 1 ||
              (asked != asked_.end() && asked->second.ranks == own_.channel->world() - 1);
  for (Peer& peer : round.peers) {
    for (Transfer* transfer : {&peer.request, &peer.reply}) {
      if (!transfer->pending()) continue;
      const auto done = own_.channel->done(*transfer);
      if (!done) return done.error();
      over = over && *done;
    }
  }
  return over;
}

// Rows of one rank's reply to their places, or its error to every part that asked it.
void PackedExchange::take_reply(Round& round, int rank) {
  Peer& peer = round.peers[static_cast<std::size_t>(rank)];
  ReplyHeader header{};
  MessageReader reader(peer.reply.bytes());
  reader.read(&header, 1);
  Status status;
  if (header.round != round.number) {
    status = protocol_error(rank, "the reply to another exchange");
  } else if (header.code != 0) {
    std::string message(std::min<std::size_t>(header.message_bytes, kMessageBytesMax), '\0');
    reader.read(message.data(), message.size());
    status =
        Error{static_cast<Code>(header.code), 0, "rank " + std::to_string(rank) + ": " + message};
  }
  stats_.bytes_received += sizeof(ReplyHeader);
  for (const auto& part : round.parts) {
    const auto& places = part->places[static_cast<std::size_t>(rank)];
    if (places.empty()) continue;
    if (!status) {
      if (part->status) part->status = status;
      continue;
    }
    const std::size_t row_bytes = own_.layout(part->table).row_bytes();
    for (const std::size_t place : places) {
      reader.read(part->rows.data() + place * row_bytes, row_bytes);
      stats_.bytes_received += row_bytes;
    }
  }
}

void PackedExchange::close_round(Round& round) {
  for (int rank = 0; rank < own_.channel->world(); ++rank) {
    if (round.peers[static_cast<std::size_t>(rank)].expects_reply) take_reply(round, rank);
  }
  for (Peer& peer : round.peers) {
    buffers_.put(peer.request.release());
    buffers_.put(peer.reply.release());
  }
  for (const auto& part : round.parts) part->over = true;
  asked_.erase(round.number);
}

bool PackedExchange::ready(Part& part) {
  const std::scoped_lock lock(mutex_);
  if (!failure_ || part.over || !own_.channel->usable()) return true;
  if (!part.sent) return false;
  return !fail(move_on()) || part.over;
}

Status PackedExchange::finish(Part& part) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) return failure_.error();
  ENGRAM_TRY(fail(own_.channel->usable()));
  if (!part.sent) ENGRAM_TRY(fail(send_round()));
  // Others first, then what is here already, while theirs is on its way.
  ENGRAM_TRY(fail(move_on()));
  const Status own = part.status ? own_.take_own(part) : Status();
  ENGRAM_TRY(fail(own_.channel->wait("another rank did not answer", [&]() -> Result<bool> {
    if (Status moved = move_on(); !moved) return std::move(moved).error();
    return part.over;
  })));
  if (part.status) part.status = own;
  return part.status;
}

void PackedExchange::give_back(std::shared_ptr<Part> part) {
  const std::scoped_lock lock(mutex_);
  if (part->over) idle_parts_.push_back(std::move(part));
}

std::unique_ptr<RowExchange> make_packed_exchange(OwnRows own) {
  return std::make_unique<PackedExchange>(std::move(own));
}

}  // namespace engram::mpi
