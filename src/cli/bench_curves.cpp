// Hit rates of caches of every size on a corpus, without a table.
#include "cli/bench_curves.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <list>
#include <unordered_map>

#include "cli/line_chart.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

constexpr std::uint64_t kSmallest = std::uint64_t{4} << 20;
constexpr std::uint64_t kLargest = std::uint64_t{4} << 30;
constexpr std::size_t kRowBytes = 264;  // of the release
constexpr std::size_t kRealHeadDim = 256;
constexpr std::size_t kSmallHeadDim = 32;

// A table whose every row is the same: caches only see which n-grams are asked for.
class OneRow final : public RowStore {
 public:
  OneRow(const LayerHash& layer, std::size_t head_dim) {
    source_.layer_id = layer.layer_id;
    source_.row_count = layer.row_count;
    source_.layout.head_dim = head_dim;
    row_.resize(source_.layout.row_bytes());
  }
  const TableSource& source() const override { return source_; }
  StoreReport report() const override { return {}; }
  Status begin(std::span<const RowId> /*rows*/, FetchScratch& /*scratch*/,
               Priority /*priority*/) const override {
    return {};
  }
  Status finish(std::span<const RowId> rows, std::span<RowView> views,
                FetchScratch& /*scratch*/) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      views[i] = packed_view(source_.layout.sizes(), row_.data());
    }
    return {};
  }

 private:
  TableSource source_;
  std::vector<std::byte> row_;
};

Result<Memory> make_memory(const Engine& engine, std::size_t head_dim, std::uint64_t cache_bytes) {
  std::vector<std::unique_ptr<RowStore>> stores;
  for (const LayerHash& layer : engine.hasher().spec().layers()) {
    stores.push_back(std::make_unique<OneRow>(layer, head_dim));
  }
  return Memory::create(engine.hasher(), std::move(stores), NanPolicy::propagate, cache_bytes);
}

// A cache that holds as many n-grams as `bytes` do with real rows, but copies small ones.
Result<Memory> make_small(const Engine& engine, std::uint64_t bytes) {
  const auto real = make_memory(engine, kRealHeadDim, bytes);
  if (!real) return real.error();
  const auto small = make_memory(engine, kSmallHeadDim, bytes);
  if (!small) return small.error();
  const double share =
      static_cast<double>(real->cache_capacity()) / static_cast<double>(small->cache_capacity());
  return make_memory(engine, kSmallHeadDim,
                     static_cast<std::uint64_t>(static_cast<double>(bytes) * share) + 1);
}

// Forgets what was asked for longest ago. The rows of an n-gram come and go together, so it counts
// n-grams.
class Lru {
 public:
  explicit Lru(std::size_t capacity) : capacity_(capacity) {}

  bool ask(Key key, std::size_t order) {
    const std::uint64_t id = key ^ (order + 1) * 0x9E37'79B9'7F4A'7C15u;
    const auto found = places_.find(id);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    if (places_.size() == capacity_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(id);
    places_[id] = order_.begin();
    return false;
  }

 private:
  std::size_t capacity_;
  std::list<std::uint64_t> order_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

struct Rates {
  std::vector<std::uint64_t> asked;  // [orders]
  std::vector<std::uint64_t> hits;
  explicit Rates(std::size_t orders) : asked(orders), hits(orders) {}

  double of(std::size_t order) const {
    return static_cast<double>(hits[order]) / static_cast<double>(asked[order]);
  }
  double all() const {
    std::uint64_t asked_all = 0;
    std::uint64_t hits_all = 0;
    for (const std::uint64_t count : asked) asked_all += count;
    for (const std::uint64_t count : hits) hits_all += count;
    return static_cast<double>(hits_all) / static_cast<double>(asked_all);
  }
};

// The first layer's keys, document by document, one token at a time.
Status for_each_token(const Engine& engine, const std::vector<std::vector<TokenId>>& documents,
                      const std::function<Status(std::span<const Key>)>& visit) {
  const auto orders = static_cast<std::size_t>(engine.hasher().spec().config().orders());
  for (const auto& document : documents) {
    Session session(engine);
    ENGRAM_TRY(session.advance(document));
    const auto keys = session.keys(engine.hasher().spec().layers().front().layer_id);
    if (!keys) return keys.error();
    for (std::size_t at = 0; at < keys->size(); at += orders) {
      ENGRAM_TRY(visit(keys->subspan(at, orders)));
    }
  }
  return {};
}

Result<Rates> ngram_cache(const Engine& engine, const std::vector<std::vector<TokenId>>& documents,
                          std::uint64_t bytes) {
  const auto memory = make_small(engine, bytes);
  if (!memory) return memory.error();
  const auto columns = static_cast<std::size_t>(engine.hasher().spec().config().columns());
  std::vector<std::byte> rows(columns * memory->output_bytes(0, OutputFormat::raw));
  LookupWorkspace workspace;
  ENGRAM_TRY(for_each_token(engine, documents, [&](std::span<const Key> keys) {
    return memory->lookup(0, keys, {OutputFormat::raw, rows, 0}, workspace);
  }));
  const TableStats stats = memory->stats(0);
  Rates rates(stats.orders.size());
  for (std::size_t order = 0; order < stats.orders.size(); ++order) {
    rates.asked[order] = stats.orders[order].unique;
    rates.hits[order] = stats.orders[order].hits;
  }
  return rates;
}

Result<Rates> row_lru(const Engine& engine, const std::vector<std::vector<TokenId>>& documents,
                      std::uint64_t bytes) {
  const HashConfig& config = engine.hasher().spec().config();
  Lru lru(bytes / kRowBytes / static_cast<std::size_t>(config.heads));
  Rates rates(static_cast<std::size_t>(config.orders()));
  ENGRAM_TRY(for_each_token(engine, documents, [&](std::span<const Key> keys) -> Status {
    for (std::size_t order = 0; order < keys.size(); ++order) {
      ++rates.asked[order];
      rates.hits[order] += lru.ask(keys[order], order) ? 1 : 0;
    }
    return {};
  }));
  return rates;
}

std::vector<double> by_order(const Rates& rates) {
  std::vector<double> result;
  for (std::size_t order = 0; order < rates.asked.size(); ++order) {
    result.push_back(rates.of(order));
  }
  return result;
}

void print(const Rates& ours, const Rates& lru, std::uint64_t bytes, bool json) {
  if (json) {
    fmt::print(
        R"({{"bench":"curves","tier":"cache","workload":"text","cache_bytes":{},"tokens":{},)"
        R"("value":{:.4f},"unit":"hit rate","bound":{:.4f},)"
        R"("bound_is":"an LRU of rows of equal size","ratio":{:.4f},)"
        R"("by_order":[{:.4f}],"bound_by_order":[{:.4f}]}})"
        "\n",
        bytes, ours.asked.front(), ours.all(), lru.all(), ours.all() / lru.all(),
        fmt::join(by_order(ours), ","), fmt::join(by_order(lru), ","));
    return;
  }
  fmt::print("{:>6} MiB  {:.3f}   by order {:.3f}   (an LRU of rows: {:.3f}, {:.3f})\n",
             bytes >> 20, ours.all(), fmt::join(by_order(ours), " "), lru.all(),
             fmt::join(by_order(lru), " "));
}

}  // namespace

Status hit_rate_curves(const Engine& engine, const std::vector<std::vector<TokenId>>& documents,
                       bool json, const std::string& svg) {
  if (documents.empty()) return Error{Code::invalid_argument, 0, "curves: there is no text"};
  LineChart chart("Hit rate of caches in front of one layer", "cache size in MiB");
  chart.add_line("n-gram cache");
  chart.add_line("LRU of rows");
  for (std::uint64_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    const auto ours = ngram_cache(engine, documents, bytes);
    if (!ours) return ours.error();
    const auto lru = row_lru(engine, documents, bytes);
    if (!lru) return lru.error();
    print(*ours, *lru, bytes, json);
    const auto x = static_cast<double>(bytes >> 20);
    chart.add_point(0, x, ours->all());
    chart.add_point(1, x, lru->all());
  }
  if (svg.empty()) return {};
  std::ofstream file(svg);
  file << chart.svg();
  file.close();
  if (file) return {};
  return Error{Code::io, 0, fmt::format("{}: cannot write", svg)};
}

}  // namespace engram::cli
