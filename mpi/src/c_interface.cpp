// The C interface of sharded models.
#include "engram/mpi.h"
#include "engram/mpi.hpp"

#include "capi/handles.hpp"

namespace {

using engram::Code;
using engram::Error;

engram::Result<engram::ShardedOptions> sharded_options(const engram_sharded_options* given) {
  engram::ShardedOptions options;
  if (given == nullptr) return options;
  if (given->struct_bytes < sizeof(engram_sharded_options)) {
    return Error{Code::invalid_argument, 0,
                 "sharded.struct_bytes: expected " +
                     std::to_string(sizeof(engram_sharded_options)) + ", found " +
                     std::to_string(given->struct_bytes)};
  }
  switch (given->partition) {
    case ENGRAM_PARTITION_STRIDED:
      options.by = engram::Partition::strided;
      break;
    case ENGRAM_PARTITION_HEADS:
      options.by = engram::Partition::heads;
      break;
    case ENGRAM_PARTITION_ROWS:
      options.by = engram::Partition::rows;
      break;
    case ENGRAM_PARTITION_LAYER_ORDER:
      options.by = engram::Partition::layer_order;
      break;
    default:
      return Error{Code::invalid_argument, 0,
                   "sharded.partition: found " + std::to_string(given->partition)};
  }
  if (given->exchange != ENGRAM_EXCHANGE_PACKED && given->exchange != ENGRAM_EXCHANGE_REDUCED) {
    return Error{Code::invalid_argument, 0,
                 "sharded.exchange: found " + std::to_string(given->exchange)};
  }
  options.exchange = given->exchange == ENGRAM_EXCHANGE_PACKED ? engram::Exchange::packed
                                                               : engram::Exchange::reduced;
  if (given->timeout_ms != 0) options.timeout = std::chrono::milliseconds(given->timeout_ms);
  return options;
}

}  // namespace

static_assert(sizeof(engram_sharded_options) == 16);

extern "C" int32_t engram_model_open_sharded(const char* directory,
                                             const engram_model_options* options, MPI_Comm comm,
                                             const engram_sharded_options* sharded,
                                             engram_model** model) {
  return engram::capi::make_handle(model, [&]() -> engram::Result<engram::Engine> {
    if (directory == nullptr) return engram::capi::null_argument("directory");
    const auto with = engram::capi::engine_options(options);
    if (!with) return with.error();
    const auto over = sharded_options(sharded);
    if (!over) return over.error();
    return engram::Engine::open(directory, *with, engram::sharded_stores(comm, *over));
  });
}
