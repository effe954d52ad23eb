// One token timeline: the look-back, the current chunk, and what it looks up.
#include <algorithm>

#include "engram/engine.hpp"

#include "base/bfloat16.hpp"
#include "base/error.hpp"

namespace engram {

struct Session::Impl {
  // The timeline itself: what a fork copies.
  struct Timeline {
    Lookback lookback;  // before the current chunk while it is prepared, after it once committed
    std::uint64_t position = 0;
    bool prepared = false;
    std::vector<CompressedId> compressed;  // [length]
    std::vector<std::uint8_t> mask;        // [length], or empty
    std::vector<Key> keys;                 // [layers, length, orders]
  };

  explicit Impl(const Engine& with)
      : engine(&with), tickets(with.hasher().spec().layers().size()) {}

  const Engine* engine;
  Timeline timeline;
  // Scratch memory, not copied.
  Timeline next;
  std::vector<Ticket> tickets;  // [layers]: lookups of the current chunk that have begun
  LookupWorkspace lookup;
  GateWorkspace gate;
  std::vector<std::uint16_t> embedding;  // [length, embedding_dim]
  std::vector<float> hidden;             // of the bfloat16 overload

  void cancel_tickets() {
    for (Ticket& ticket : tickets) ticket.cancel();
  }

  std::span<const Key> keys(int table_index) const {
    const std::size_t count = timeline.keys.size() / engine->hasher().spec().layers().size();
    return std::span(timeline.keys).subspan(static_cast<std::size_t>(table_index) * count, count);
  }
};

Session::Session(const Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}

Session::Session(const Session& other) : impl_(std::make_unique<Impl>(*other.impl_->engine)) {
  impl_->timeline = other.impl_->timeline;
}

Session& Session::operator=(const Session& other) {
  if (this == &other) return *this;
  impl_->cancel_tickets();
  impl_->tickets.resize(other.impl_->tickets.size());
  impl_->engine = other.impl_->engine;
  impl_->timeline = other.impl_->timeline;
  return *this;
}

Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Status Session::advance(std::span<const TokenId> tokens, std::span<const std::uint8_t> mask) {
  ENGRAM_TRY(prepare(tokens, mask));
  return commit(tokens.size());
}

Status Session::prepare(std::span<const TokenId> tokens, std::span<const std::uint8_t> mask) {
  const Hasher& hasher = impl_->engine->hasher();
  // Built aside, so that bad input changes nothing.
  Impl::Timeline& next = impl_->next;
  next.lookback = impl_->timeline.lookback;
  next.position = impl_->timeline.position;
  next.prepared = true;
  next.compressed.resize(tokens.size());
  next.mask.assign(mask.begin(), mask.end());
  next.keys.resize(hasher.spec().layers().size() * tokens.size() * hasher.spec().config().orders());
  ENGRAM_TRY(impl_->engine->token_map().compress(tokens, mask, next.compressed));
  ENGRAM_TRY(hasher.keys(next.compressed, next.lookback, next.keys));
  std::swap(impl_->timeline, next);
  impl_->cancel_tickets();
  return {};
}

Status Session::commit(std::size_t accepted) {
  Impl::Timeline& timeline = impl_->timeline;
  if (!timeline.prepared || accepted > timeline.compressed.size()) {
    return make_error(Code::invalid_argument, "commit: expected up to {} prepared tokens, found {}",
                      timeline.prepared ? timeline.compressed.size() : 0, accepted);
  }
  timeline.lookback = timeline.lookback.after(std::span(timeline.compressed).first(accepted));
  timeline.position += accepted;
  timeline.prepared = false;
  return {};
}

std::uint64_t Session::position() const { return impl_->timeline.position; }
std::size_t Session::length() const { return impl_->timeline.compressed.size(); }
std::span<const CompressedId> Session::compressed() const { return impl_->timeline.compressed; }

Result<std::span<const Key>> Session::keys(std::int64_t layer_id) const {
  const auto table = impl_->engine->hasher().spec().table_index(layer_id);
  if (!table) return table.error();
  return impl_->keys(*table);
}

Status Session::rows(std::int64_t layer_id, std::span<RowId> rows) const {
  const Hasher& hasher = impl_->engine->hasher();
  const auto table = hasher.spec().table_index(layer_id);
  if (!table) return table.error();
  return hasher.rows(*table, impl_->keys(*table), rows);
}

Status Session::prefetch(Priority priority) {
  const Memory* memory = impl_->engine->memory();
  if (memory == nullptr) {
    return make_error(Code::unavailable, "prefetch: the engine was opened without tables");
  }
  for (std::size_t table = 0; table < impl_->tickets.size(); ++table) {
    if (impl_->tickets[table].pending()) continue;
    const auto index = static_cast<int>(table);
    auto ticket = memory->prefetch(index, impl_->keys(index), priority);
    if (!ticket) return std::move(ticket).error();
    impl_->tickets[table] = *std::move(ticket);
  }
  return {};
}

Status Session::lookup(std::int64_t layer_id, const RowOutput& output) {
  const auto table = impl_->engine->hasher().spec().table_index(layer_id);
  if (!table) return table.error();
  const Memory* memory = impl_->engine->memory();
  if (memory == nullptr) {
    return make_error(Code::unavailable, "layer {}: the engine was opened without tables",
                      layer_id);
  }
  Ticket& begun = impl_->tickets[static_cast<std::size_t>(*table)];
  if (begun.pending()) return memory->wait(begun, output);
  return memory->lookup(*table, impl_->keys(*table), output, impl_->lookup);
}

Status Session::apply(std::int64_t layer_id, std::span<float> hidden, Rounding rounding,
                      std::span<float> gates) {
  const auto table = impl_->engine->hasher().spec().table_index(layer_id);
  if (!table) return table.error();
  const Gate* gate = impl_->engine->gate(*table);
  if (gate == nullptr) {
    return make_error(Code::unavailable, "layer {}: the engine was opened without gate weights",
                      layer_id);
  }
  impl_->embedding.resize(length() * gate->shape().embedding_dim);
  const RowOutput rows{OutputFormat::bf16, std::as_writable_bytes(std::span(impl_->embedding)), 0};
  ENGRAM_TRY(lookup(layer_id, rows));
  const GateInput input{impl_->embedding, hidden, impl_->timeline.mask, rounding};
  return gate->apply(input, hidden, gates, impl_->gate, impl_->engine->threads());
}

Status Session::apply(std::int64_t layer_id, std::span<std::uint16_t> hidden,
                      std::span<float> gates) {
  impl_->hidden.resize(hidden.size());
  std::transform(hidden.begin(), hidden.end(), impl_->hidden.begin(), float_from_bfloat16);
  ENGRAM_TRY(apply(layer_id, std::span(impl_->hidden), Rounding::reference, gates));
  const auto& mask = impl_->timeline.mask;
  const std::size_t stream = length() == 0 ? 0 : hidden.size() / length();
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    if (!mask.empty() && mask[i / stream] == 0) continue;
    hidden[i] = bfloat16_from_float(impl_->hidden[i]);
  }
  return {};
}

}  // namespace engram
