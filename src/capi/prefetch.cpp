// The C interface of prefetch tickets and statistics.
#include <algorithm>
#include <cstring>
#include <string>

#include "capi/handles.hpp"

using namespace engram;        // NOLINT(google-build-using-namespace): one file, its own module
using namespace engram::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

int32_t engram_model_prefetch(const engram_model* model, int32_t table_index, const uint64_t* keys,
                              size_t key_count, int32_t priority, engram_ticket** ticket) {
  return make_handle(ticket, [&]() -> Result<engram_ticket> {
    const auto memory = tables_of(model);
    if (!memory) return memory.error();
    const auto in = span_of(keys, key_count, "keys");
    if (!in) return in.error();
    const auto how_soon = priority_of(priority);
    if (!how_soon) return how_soon.error();
    auto begun = (*memory)->prefetch(table_index, *in, *how_soon);
    if (!begun) return std::move(begun).error();
    return engram_ticket{*memory, *std::move(begun)};
  });
}

int32_t engram_ticket_ready(const engram_ticket* ticket) {
  return ticket == nullptr || ticket->ticket.ready() ? 1 : 0;
}

int32_t engram_ticket_wait(engram_ticket* ticket, const engram_row_output* output) {
  return guard([&]() -> Status {
    if (ticket == nullptr) return null_argument("ticket");
    const auto out = row_output(output);
    if (!out) return out.error();
    return ticket->memory->wait(ticket->ticket, *out);
  });
}

void engram_ticket_free(engram_ticket* ticket) {
  const std::unique_ptr<engram_ticket> owned(ticket);
}

int32_t engram_model_stats(const engram_model* model, int32_t table_index, int32_t order,
                           engram_table_stats* stats) {
  return guard([&]() -> Status {
    if (model == nullptr) return null_argument("model");
    if (stats == nullptr) return null_argument("stats");
    const Memory* memory = model->engine.memory();
    if (memory == nullptr || table_index < 0 || table_index >= memory->table_count()) {
      return Error{Code::out_of_range, 0,
                   "table_index: no table " + std::to_string(table_index) + " is loaded"};
    }
    const TableStats all = memory->stats(table_index);
    const auto orders = static_cast<int32_t>(all.orders.size());
    if (order != 0 && (order < 2 || order > orders + 1)) {
      return Error{Code::out_of_range, 0,
                   "order: expected 0 or 2.." + std::to_string(orders + 1) + ", found " +
                       std::to_string(order)};
    }
    engram_table_stats full{};
    full.struct_bytes = stats->struct_bytes;
    for (int32_t i = 0; i < orders; ++i) {
      if (order != 0 && order != i + 2) continue;
      const OrderStats& counted = all.orders[static_cast<std::size_t>(i)];
      full.keys += counted.keys;
      full.unique += counted.unique;
      full.hits += counted.hits;
    }
    full.reads = all.reads;
    full.read_bytes = all.read_bytes;
    full.wait_ns = all.wait_ns;
    std::memcpy(stats, &full, std::min<std::size_t>(stats->struct_bytes, sizeof(full)));
    return {};
  });
}

int32_t engram_session_prefetch(engram_session* session, int32_t priority) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const auto how_soon = priority_of(priority);
    if (!how_soon) return how_soon.error();
    return session->session.prefetch(*how_soon);
  });
}

int32_t engram_shared_load(const char* directory, const char* name,
                           const engram_model_options* options) {
  return guard([&]() -> Status {
    if (directory == nullptr) return null_argument("directory");
    if (name == nullptr) return null_argument("name");
    const auto with = engine_options(options);
    if (!with) return with.error();
    const auto checkpoint = Checkpoint::open(directory, with->checkpoint);
    if (!checkpoint) return checkpoint.error();
    return load_shared(checkpoint->tables(), name, with->store);
  });
}

int32_t engram_shared_unload(const char* name) {
  return guard([&]() -> Status {
    if (name == nullptr) return null_argument("name");
    return unload_shared(name);
  });
}

}  // extern "C"
