// Exchange::packed: rounds of lookups in which ranks ask the owners of rows and answer each other.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "row_exchange.hpp"

namespace engram::mpi {

// A lookup joins the round that is open, which is sent with its last table or with the first
// finish. A round is over on this rank when its rows are here and all other ranks have been
// answered.
class PackedExchange final : public RowExchange {
 public:
  explicit PackedExchange(OwnRows own);
  // Answers what others still ask, as long as the timeout allows.
  ~PackedExchange() override;

  Result<std::shared_ptr<Part>> begin(std::size_t table, std::span<const RowId> rows,
                                      Priority priority) override;
  bool ready(Part& part) override;
  Status finish(Part& part) override;
  ExchangeStats stats() const override;
  void give_back(std::shared_ptr<Part> part) override;

 private:
  struct Peer {
    Transfer request;
    Transfer reply;
    bool expects_reply = false;
  };
  struct Round {
    std::uint64_t number = 0;
    std::vector<std::shared_ptr<Part>> parts;  // by table
    std::vector<Peer> peers;                   // [world]
  };
  // A request, taken apart: rows of each table it names.
  struct Request {
    std::uint64_t round = 0;
    std::uint64_t tables = 0;
    std::vector<std::size_t> table;
    std::vector<std::vector<RowId>> rows;
    std::size_t reply_bytes = 0;
  };
  Status parse(const Channel::Message& message, Request& request) const;

  // What others have sent of a round, whether or not this rank has come to it.
  struct Asked {
    int ranks = 0;
    std::uint64_t tables = 0;
    int first_rank = 0;
  };

  Status send_round();
  Status send_request(Round& round, int rank);
  Status move_on();
  Status answer(Channel::Message request);
  Status check_round(int rank, std::uint64_t round, std::uint64_t tables);
  Status read_rows(const Request& request, std::byte* out);
  Result<bool> round_over(Round& round);
  void take_reply(Round& round, int rank);
  void close_round(Round& round);
  // Remembers a failure of the group: every call from then on has it.
  Status fail(Status status);

  mutable std::mutex mutex_;
  OwnRows own_;
  std::shared_ptr<Round> open_;              // joined, not sent
  std::deque<std::shared_ptr<Round>> sent_;  // not over
  std::map<std::uint64_t, Asked> asked_;     // by round
  std::deque<Transfer> replies_;             // under way to others
  std::uint64_t next_round_ = 0;
  Buffers buffers_;
  std::vector<std::shared_ptr<Part>> idle_parts_;
  Request request_;  // being answered
  FetchScratch serving_;
  std::vector<RowView> serving_views_;
  Status failure_;
  ExchangeStats stats_;
};

}  // namespace engram::mpi
