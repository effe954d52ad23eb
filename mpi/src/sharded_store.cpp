// Tables cut over the ranks of a communicator, behind the same contract as any tier.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engram/mpi.hpp"

#include "agreement.hpp"
#include "row_exchange.hpp"
#include "wire.hpp"

namespace engram {
namespace mpi {
namespace {

// What a scratch holds of a sharded fetch.
class PendingPart final : public PendingFetch {
 public:
  PendingPart(std::shared_ptr<RowExchange> exchange, std::shared_ptr<Part> part)
      : exchange_(std::move(exchange)), part_(std::move(part)) {}
  ~PendingPart() override { exchange_->give_back(std::move(part_)); }
  bool ready() override { return exchange_->ready(*part_); }
  Part& part() { return *part_; }

 private:
  std::shared_ptr<RowExchange> exchange_;
  std::shared_ptr<Part> part_;
};

class ShardedStore final : public RowStore {
 public:
  ShardedStore(std::shared_ptr<RowExchange> exchange, std::size_t table, const RowStore& own)
      : exchange_(std::move(exchange)), table_(table), own_(own), source_(own.source()) {
    source_.held.reset();  // the other ranks hold the rest
  }

  const TableSource& source() const override { return source_; }
  StoreReport report() const override {
    StoreReport report = own_.report();
    report.tier = Tier::sharded;
    return report;
  }
  bool collective() const override { return true; }

  Status begin(std::span<const RowId> rows, FetchScratch& scratch,
               Priority priority) const override {
    auto part = exchange_->begin(table_, rows, priority);
    if (!part) return std::move(part).error();
    scratch.hold(std::make_unique<PendingPart>(exchange_, *std::move(part)));
    return {};
  }

  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& scratch) const override {
    auto* pending = dynamic_cast<PendingPart*>(scratch.held());
    if (pending == nullptr || rows.size() != views.size()) {
      return Error{Code::invalid_argument, 0, "finish: no fetch of this store has begun"};
    }
    Part& part = pending->part();
    ENGRAM_TRY(exchange_->finish(part));
    const RowSizes sizes = source_.layout.sizes();
    for (std::size_t i = 0; i < views.size(); ++i) {
      views[i] = packed_view(sizes, part.rows.data() + i * sizes.total());
    }
    return {};
  }

  const RowExchange& exchange() const { return *exchange_; }

 private:
  std::shared_ptr<RowExchange> exchange_;
  std::size_t table_;
  const RowStore& own_;
  TableSource source_;
};

std::string text_of(std::span<const std::uint64_t> values) {
  std::string text;
  for (const std::uint64_t value : values) text += std::to_string(value) + " ";
  return text;
}

std::vector<Fact> facts_of(const Checkpoint& model, const TokenMap& map, const HashSpec& spec,
                           const ShardedOptions& options) {
  std::vector<Fact> facts = {{"token map SHA-256", map.sha256()},
                             {"partition", std::string(partition_name(options.by))},
                             {"exchange", std::to_string(static_cast<int>(options.exchange))},
                             {"timeout in ms", std::to_string(options.timeout.count())},
                             {"heads", std::to_string(spec.config().heads)},
                             {"tables", std::to_string(model.tables().size())}};
  for (std::size_t i = 0; i < model.tables().size(); ++i) {
    const TableSource& table = model.tables()[i];
    const LayerHash& layer = spec.layers()[i];
    const std::string of = " of layer " + std::to_string(table.layer_id);
    facts.push_back({"rows" + of, std::to_string(table.row_count)});
    facts.push_back({"row format" + of, std::string(row_format_name(table.layout.format)) + " " +
                                            std::to_string(table.layout.head_dim) + " columns, " +
                                            std::to_string(table.layout.row_bytes()) + " bytes"});
    facts.push_back({"multipliers" + of, text_of(layer.multipliers)});
    facts.push_back({"primes" + of, text_of(layer.primes)});
  }
  return facts;
}

// A rank's own directory must say what this rank is to hold.
Status check_manifest(const ShardManifest& manifest, const Channel& channel,
                      const ShardedOptions& options, const std::string& where) {
  if (manifest.rank == channel.rank() && manifest.world == channel.world() &&
      manifest.by == partition_name(options.by)) {
    return {};
  }
  return Error{Code::invalid_argument, 0,
               where + ": expected the shard of rank " + std::to_string(channel.rank()) + " of " +
                   std::to_string(channel.world()) + " by " +
                   std::string(partition_name(options.by)) + ", found rank " +
                   std::to_string(manifest.rank) + " of " + std::to_string(manifest.world) +
                   " by " + manifest.by};
}

Result<std::vector<ShardMap>> shard_maps(const HashSpec& spec, const Channel& channel,
                                         const ShardedOptions& options) {
  if (spec.layers().size() > kTablesMax) {
    return Error{Code::unsupported, 0, "more than 64 tables over ranks"};
  }
  std::vector<ShardMap> maps;
  for (std::size_t table = 0; table < spec.layers().size(); ++table) {
    auto map = ShardMap::create(spec, static_cast<int>(table), options.by, channel.world());
    if (!map) return std::move(map).error();
    maps.push_back(*std::move(map));
  }
  return maps;
}

// Of a whole model, tier ram takes this rank's rows only.
Result<std::vector<std::unique_ptr<RowStore>>> open_own(const Checkpoint& model,
                                                        const std::vector<ShardMap>& maps,
                                                        const Channel& channel,
                                                        const ShardedOptions& options,
                                                        StoreOptions store) {
  if (model.shard()) {
    ENGRAM_TRY(check_manifest(*model.shard(), channel, options, model.directory()));
  } else if (store.tier == Tier::ram) {
    for (std::size_t table = 0; table < maps.size(); ++table) {
      for (const RowRange& range : maps[table].rows(channel.rank())) {
        store.resident.push_back({model.tables()[table].layer_id, range});
      }
    }
    if (store.resident.empty()) store.tier = Tier::mmap;  // a rank that owns nothing
  }
  return open_row_stores(model.tables(), store);
}

}  // namespace
}  // namespace mpi

OpenStores sharded_stores(MPI_Comm comm, const ShardedOptions& options) {
  return
      [comm, options](const Checkpoint& model, const TokenMap& map, const HashSpec& spec,
                      const StoreOptions& store) -> Result<std::vector<std::unique_ptr<RowStore>>> {
        auto channel = mpi::Channel::duplicate(comm, options.timeout);
        if (!channel) return std::move(channel).error();
        auto maps = mpi::shard_maps(spec, **channel, options);
        if (!maps) return std::move(maps).error();
        auto own = mpi::open_own(model, *maps, **channel, options, store);
        ENGRAM_TRY(mpi::agree(**channel, mpi::facts_of(model, map, spec, options),
                              own ? Status() : Status(own.error())));
        std::vector<const RowStore*> stores;
        for (const auto& each : *own) stores.push_back(each.get());
        mpi::OwnRows rows{*std::move(channel), *std::move(own), *std::move(maps)};
        const std::shared_ptr<mpi::RowExchange> exchange =
            options.exchange == Exchange::packed ? mpi::make_packed_exchange(std::move(rows))
                                                 : mpi::make_reduced_exchange(std::move(rows));
        std::vector<std::unique_ptr<RowStore>> result;
        for (std::size_t table = 0; table < stores.size(); ++table) {
          result.push_back(std::make_unique<mpi::ShardedStore>(exchange, table, *stores[table]));
        }
        return result;
      };
}

ExchangeStats exchange_stats(const RowStore& store) {
  const auto* sharded = dynamic_cast<const mpi::ShardedStore*>(&store);
  return sharded == nullptr ? ExchangeStats{} : sharded->exchange().stats();
}

}  // namespace engram
