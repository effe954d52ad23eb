// Tables cut over the ranks of a communicator, behind the same contract as any tier.
//
//   auto engine = engram::Engine::open("DeepSeek-V4.1-Flash", options,
//                                      engram::sharded_stores(MPI_COMM_WORLD, {}));
//   // Sessions, lookups and tickets as with any engine, on every rank.
//
// Lookups are collective: all ranks make the same sequence of begins and finishes (so of lookups,
// prefetches and waits), each with rows of its own; a rank that needs none looks up none, and a
// cache of n-grams changes nothing about it. Lookups of several tables that begin after each other
// in table order, as Session::prefetch does, share one exchange, which leaves with the last table
// or with the first finish: until then Ticket::ready is false. Ranks answer each other inside these
// calls only; there are no hidden threads.
//
// Failure: where a rank dies, hangs, or falls out of step, every other rank's lookup fails with
// Code::unavailable within `timeout` of waiting, and all later ones at once. A row that its owner
// cannot read fails the lookups that asked for it, with the owner's own error, and nothing else.
// After a failure MPI_Finalize may wait for ever: end the process, or use MPI_Abort. mpirun ends
// all ranks with the first that dies unless it is given --enable-recovery.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>

#include "engram/engine.hpp"
#include "engram/export.h"

namespace engram {

enum class Exchange : std::uint8_t {
  packed,   // ids to their owners, stored rows back: as many bytes as the rows have
  reduced,  // every rank fills in what it owns of one common batch, and all are combined by OR: the
            // reference's zero-filled partial rows and all-reduce. Every rank must look up the same
            // rows. A combination of stored bytes keeps the sign of -0, which a sum of values loses
};

struct ShardedOptions {
  Partition by = Partition::strided;
  Exchange exchange = Exchange::packed;
  std::chrono::milliseconds timeout{30'000};  // of waiting for other ranks
};

// For Engine::open and Memory: opens this rank's rows in the tier that StoreOptions name, and
// nothing of the others'. `model` is the whole model on every rank (tier ram loads the rank's rows
// only) or this rank's output of `engram shard`, whose manifest must agree with rank, world and
// partition. Collective over `comm`, which is duplicated; MPI must be initialised, with
// MPI_THREAD_SERIALIZED where several threads look up, and outlive the engine.
//
// Before any lookup all ranks compare what they hold: addressing, token map, table sizes and
// formats, partition, timeout. Code::invalid_argument names the first difference on every rank;
// Code::unavailable where another rank could not open its rows, with its error, or did not answer.
ENGRAM_API OpenStores sharded_stores(MPI_Comm comm, const ShardedOptions& options);

// What exchanges have moved since the stores were opened, over all tables of an engine.
struct ExchangeStats {
  std::uint64_t exchanges = 0;
  std::uint64_t rows_asked = 0;     // of other ranks
  std::uint64_t rows_answered = 0;  // to other ranks
  std::uint64_t bytes_sent = 0;     // ids, rows and headers
  std::uint64_t bytes_received = 0;
};
// Of a store that sharded_stores opened; zeros for any other.
ENGRAM_API ExchangeStats exchange_stats(const RowStore& store);

}  // namespace engram
