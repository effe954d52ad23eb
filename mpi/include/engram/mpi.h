/* Tables over the ranks of a communicator, from C. engram/mpi.hpp says what ranks owe each other;
 * engram/engram.h has the conventions. */
#ifndef ENGRAM_MPI_H_
#define ENGRAM_MPI_H_

#include <mpi.h>
#include <stdint.h>

#include "engram/engram.h"
#include "engram/export.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ENGRAM_PARTITION_STRIDED = 0,
  ENGRAM_PARTITION_HEADS,
  ENGRAM_PARTITION_ROWS,
  ENGRAM_PARTITION_LAYER_ORDER
};
enum { ENGRAM_EXCHANGE_PACKED = 0, ENGRAM_EXCHANGE_REDUCED };

typedef struct engram_sharded_options {
  uint32_t struct_bytes;
  int32_t partition;   /* ENGRAM_PARTITION_*: who holds which rows */
  int32_t exchange;    /* ENGRAM_EXCHANGE_*: ids out and rows back, or one all-reduce */
  uint32_t timeout_ms; /* of waiting for another rank; 0 means 30,000 */
} engram_sharded_options;

/* Like engram_model_open, of the whole model on every rank or of this rank's output of
 * `engram shard`; options->tier is where this rank keeps its own rows. Collective over `comm`,
 * which is duplicated; MPI must outlive the model. sharded may be NULL. Lookups, prefetches and
 * waits of the model are collective too: every rank makes the same sequence of them.
 * ENGRAM_INVALID_ARGUMENT where ranks do not fit together, ENGRAM_UNAVAILABLE where another rank
 * failed or stayed away. */
ENGRAM_API int32_t engram_model_open_sharded(const char* directory,
                                             const engram_model_options* options, MPI_Comm comm,
                                             const engram_sharded_options* sharded,
                                             engram_model** model);

#ifdef __cplusplus
}
#endif

#endif /* ENGRAM_MPI_H_ */
