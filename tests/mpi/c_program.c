/* The C interface over ranks: the rows of a sharded model are those of one process. c_program MODEL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engram/mpi.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,            \
              engram_last_error());                                                 \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                 \
    }                                                                               \
  } while (0)

enum { kRows = 40, kBytes = 264 };

static void look_up(const engram_model* model, const int64_t* rows, uint8_t* out) {
  engram_row_output output = {sizeof output, ENGRAM_FORMAT_RAW, out, kRows * kBytes, 0};
  engram_workspace* workspace = NULL;
  CHECK(engram_workspace_create(&workspace) == ENGRAM_OK);
  CHECK(engram_model_lookup_rows(model, 1, rows, kRows, workspace, &output) == ENGRAM_OK);
  engram_workspace_free(workspace);
}

int main(int argc, char** argv) {
  static uint8_t expected[kRows * kBytes];
  static uint8_t found[kRows * kBytes];
  engram_model_options options = {0};
  engram_sharded_options sharded = {0};
  engram_model* alone = NULL;
  engram_model* together = NULL;
  int64_t rows[kRows];
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 2) return 2;
  options.struct_bytes = sizeof options;
  options.load = ENGRAM_LOAD_ROWS;
  sharded.struct_bytes = sizeof sharded;
  for (int i = 0; i < kRows; ++i) rows[i] = (i * 997 + rank * 131) % 25000;
  CHECK(engram_model_open(argv[1], &options, &alone) == ENGRAM_OK);
  look_up(alone, rows, expected);
  options.tier = ENGRAM_TIER_RAM;
  for (int32_t partition = 0; partition < 4; ++partition) {
    sharded.partition = partition;
    CHECK(engram_model_open_sharded(argv[1], &options, MPI_COMM_WORLD, &sharded, &together) ==
          ENGRAM_OK);
    look_up(together, rows, found);
    CHECK(memcmp(found, expected, sizeof found) == 0);
    engram_model_free(together);
  }
  sharded.partition = 4;
  CHECK(engram_model_open_sharded(argv[1], &options, MPI_COMM_WORLD, &sharded, &together) ==
        ENGRAM_INVALID_ARGUMENT);
  CHECK(together == NULL && strstr(engram_last_error(), "sharded.partition: found 4") != NULL);
  engram_model_free(alone);
  MPI_Finalize();
  return 0;
}
