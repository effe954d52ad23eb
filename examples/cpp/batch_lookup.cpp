// A runtime with paged sequences: batch_lookup MODEL
//
// Three sequences at different points share one step: one prefills, two decode. The runtime keeps
// token ids, not sessions; each step
//   1. takes the last ids of every sequence as its look-back and hashes the batch in one call;
//   2. begins every layer's lookup before any block runs;
//   3. waits for each layer just before its block, into a staging buffer that never moves (what a
//      captured CUDA graph copies from).
// At the end every row equals what a session of that sequence alone would have looked up.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engram/engine.hpp"

namespace {

using Tokens = std::vector<engram::TokenId>;

void check(const engram::Status& status) {
  if (status) return;
  std::fprintf(stderr, "batch_lookup: %s\n", status.error().message.c_str());
  std::exit(1);
}

template <typename T>
T value_of(engram::Result<T> result) {
  if (!result) check(result.error());
  return *std::move(result);
}

struct Batch {
  Tokens tokens;
  std::vector<std::int64_t> query_start = {0};
  Tokens lookback;
};

// `known` tokens of the sequence have been looked up before; the rest is this step's.
void add_sequence(const Tokens& sequence, std::size_t known, std::size_t orders, Batch& batch) {
  batch.tokens.insert(batch.tokens.end(), sequence.begin() + static_cast<std::ptrdiff_t>(known),
                      sequence.end());
  batch.query_start.push_back(static_cast<std::int64_t>(batch.tokens.size()));
  for (std::size_t distance = 1; distance <= orders; ++distance) {
    batch.lookback.push_back(distance <= known ? sequence[known - distance] : engram::kBeforeStart);
  }
}

// The last rows of the sequence, looked up alone.
std::vector<std::byte> alone(const engram::Engine& engine, std::int64_t layer,
                             const Tokens& sequence, std::size_t known, std::size_t token_bytes) {
  engram::Session session(engine);
  check(session.advance(sequence));
  std::vector<std::byte> rows(sequence.size() * token_bytes);
  check(session.lookup(layer, {engram::OutputFormat::bf16, rows, 0}));
  return {rows.begin() + static_cast<std::ptrdiff_t>(known * token_bytes), rows.end()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const engram::Engine engine = value_of(engram::Engine::open(argv[1]));
  const engram::HashConfig& config = engine.hasher().spec().config();
  const auto orders = static_cast<std::size_t>(config.orders());
  const std::vector<Tokens> sequences = {{5, 6, 7, 8, 9, 10, 11}, {5, 6, 7, 12}, {40, 41}};
  const std::vector<std::size_t> known = {0, 3, 1};

  Batch batch;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    add_sequence(sequences[i], known[i], orders, batch);
  }
  const std::size_t keys_per_layer = batch.tokens.size() * orders;
  std::vector<engram::Key> keys(config.layer_ids.size() * keys_per_layer);
  check(engram::hash_batch(engine.token_map(), engine.hasher(),
                           {batch.tokens, {}, batch.query_start, batch.lookback}, keys));

  const engram::Memory& memory = *engine.memory();
  std::vector<engram::Ticket> tickets;
  for (std::size_t table = 0; table < config.layer_ids.size(); ++table) {
    const auto part = std::span(keys).subspan(table * keys_per_layer, keys_per_layer);
    tickets.push_back(
        value_of(memory.prefetch(static_cast<int>(table), part, engram::Priority::soon)));
  }

  for (std::size_t table = 0; table < tickets.size(); ++table) {
    const std::size_t token_bytes =
        static_cast<std::size_t>(config.columns()) *
        memory.output_bytes(static_cast<int>(table), engram::OutputFormat::bf16);
    std::vector<std::byte> staging(batch.tokens.size() * token_bytes);
    check(memory.wait(tickets[table], {engram::OutputFormat::bf16, staging, 0}));
    std::vector<std::byte> expected;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto rows = alone(engine, config.layer_ids[table], sequences[i], known[i], token_bytes);
      expected.insert(expected.end(), rows.begin(), rows.end());
    }
    if (staging != expected) {
      std::fprintf(stderr, "batch_lookup: layer %lld differs\n",
                   static_cast<long long>(config.layer_ids[table]));
      return 1;
    }
    std::printf("layer %lld: %zu tokens of %zu sequences, as each alone\n",
                static_cast<long long>(config.layer_ids[table]), batch.tokens.size(),
                sequences.size());
  }
  return 0;
}
