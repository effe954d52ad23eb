/* A C runtime's decode loop: c_consumer MODEL ROWS_FILE
 *
 * Hashes a prefill and drafts, rejects some, and writes the raw rows of layer table 0 for tokens
 * 5 6 7 8 to ROWS_FILE, where the test compares them with the command line's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engram/engram.h"

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, engram_last_error()); \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

static const int32_t kTokens[4] = {5, 6, 7, 8};

/* Errors are codes with a sentence; nothing crashes on nonsense. */
static void check_errors(const engram_model* model) {
  engram_model* none = (engram_model*)1;
  engram_session* session = NULL;
  engram_row_output output = {0};
  const int32_t bad_token = -1;
  CHECK(engram_abi_version() == ENGRAM_ABI_VERSION);
  CHECK(engram_model_open("no-such-model", NULL, &none) == ENGRAM_NOT_FOUND);
  CHECK(none == NULL && strstr(engram_last_error(), "no-such-model") != NULL);
  CHECK(engram_model_open(NULL, NULL, &none) == ENGRAM_INVALID_ARGUMENT);
  CHECK(strcmp(engram_code_name(ENGRAM_OUT_OF_RANGE), "out_of_range") == 0);
  CHECK(engram_session_create(model, &session) == ENGRAM_OK);
  CHECK(engram_session_advance(session, &bad_token, NULL, 1) == ENGRAM_OUT_OF_RANGE);
  CHECK(engram_session_advance(session, NULL, NULL, 1) == ENGRAM_INVALID_ARGUMENT);
  CHECK(engram_session_lookup(session, 1, &output) == ENGRAM_INVALID_ARGUMENT);
  CHECK(engram_session_commit(session, 1) == ENGRAM_INVALID_ARGUMENT);
  engram_session_free(session);
  engram_session_free(NULL);
  engram_model_free(NULL);
}

static engram_layer_info first_layer(const engram_model* model) {
  engram_layer_info info = {0};
  info.struct_bytes = sizeof info;
  CHECK(engram_model_describe_layer(model, 1000, &info) == ENGRAM_OUT_OF_RANGE);
  CHECK(engram_model_describe_layer(model, 0, &info) == ENGRAM_OK && info.row_count > 0);
  return info;
}

/* The same position through a session, with drafts rejected on the way, and through the batch call. */
static void check_paths_agree(const engram_model* model, const engram_model_info* info) {
  const size_t orders = (size_t)info->orders;
  const size_t columns = orders * (size_t)info->heads;
  const int32_t drafts[2] = {9, 10};
  const int64_t query_start[2] = {0, 1};
  const int32_t lookback[3] = {7, 6, 5};
  const int32_t hole[3] = {7, ENGRAM_BEFORE_START, 5};
  uint64_t* keys = calloc((size_t)info->layers * orders, sizeof *keys);
  int64_t* batch = calloc(columns, sizeof *batch);
  int64_t* stepped = calloc(columns, sizeof *stepped);
  engram_session* session = NULL;
  engram_session* fork = NULL;
  const int64_t layer = first_layer(model).layer_id;
  CHECK(keys && batch && stepped);
  CHECK(engram_session_create(model, &session) == ENGRAM_OK);
  CHECK(engram_session_advance(session, kTokens, NULL, 3) == ENGRAM_OK);
  CHECK(engram_session_copy(session, &fork) == ENGRAM_OK);
  CHECK(engram_session_prepare(fork, drafts, NULL, 2) == ENGRAM_OK);
  CHECK(engram_session_commit(fork, 0) == ENGRAM_OK);
  CHECK(engram_session_advance(fork, kTokens + 3, NULL, 1) == ENGRAM_OK);
  CHECK(engram_session_position(fork) == 4 && engram_session_length(fork) == 1);
  CHECK(engram_session_rows(fork, layer, stepped, columns) == ENGRAM_OK);
  CHECK(engram_model_hash(model, kTokens + 3, NULL, 1, query_start, lookback, 1, keys) == ENGRAM_OK);
  CHECK(engram_model_rows(model, 0, keys, orders, batch) == ENGRAM_OK);
  CHECK(memcmp(batch, stepped, columns * sizeof *batch) == 0);
  CHECK(engram_model_hash(model, kTokens + 3, NULL, 1, query_start, hole, 1, keys) ==
        ENGRAM_INVALID_ARGUMENT);
  CHECK(strstr(engram_last_error(), "history inside a sequence must be whole") != NULL);
  engram_session_free(fork);
  engram_session_free(session);
  free(stepped);
  free(batch);
  free(keys);
}

/* One step's keys, begun in every layer and then waited for: what a plain lookup gives. */
static void check_prefetch(const engram_model* model, const engram_model_info* info) {
  const engram_layer_info table = first_layer(model);
  const size_t orders = (size_t)info->orders;
  const size_t bytes = orders * (size_t)info->heads * (size_t)table.raw_bytes;
  const int64_t query_start[2] = {0, 1};
  const int32_t lookback[3] = {7, 6, 5};
  uint64_t* keys = calloc((size_t)info->layers * orders, sizeof *keys);
  engram_row_output expected = {sizeof expected, ENGRAM_FORMAT_RAW, malloc(bytes), bytes, 0};
  engram_row_output found = {sizeof found, ENGRAM_FORMAT_RAW, malloc(bytes), bytes, 0};
  engram_workspace* workspace = NULL;
  engram_ticket* ticket = NULL;
  engram_ticket* given_up = NULL;
  engram_table_stats stats = {0};
  CHECK(keys && expected.data && found.data);
  CHECK(engram_model_hash(model, kTokens + 3, NULL, 1, query_start, lookback, 1, keys) == ENGRAM_OK);
  CHECK(engram_workspace_create(&workspace) == ENGRAM_OK);
  CHECK(engram_model_lookup(model, 0, keys, orders, workspace, &expected) == ENGRAM_OK);
  CHECK(engram_model_prefetch(model, 0, keys, orders, ENGRAM_PRIORITY_SOON, &ticket) == ENGRAM_OK);
  CHECK(engram_model_prefetch(model, 0, keys, orders, 7, &given_up) == ENGRAM_INVALID_ARGUMENT);
  CHECK(given_up == NULL);
  CHECK(engram_model_prefetch(model, 0, keys, orders, ENGRAM_PRIORITY_WHENEVER, &given_up) ==
        ENGRAM_OK);
  engram_ticket_free(given_up);
  CHECK(engram_ticket_wait(ticket, &found) == ENGRAM_OK);
  CHECK(engram_ticket_ready(ticket) == 1);
  CHECK(memcmp(expected.data, found.data, bytes) == 0);
  CHECK(engram_ticket_wait(ticket, &found) == ENGRAM_INVALID_ARGUMENT); /* spent */
  engram_ticket_free(ticket);
  engram_ticket_free(NULL);
  stats.struct_bytes = sizeof stats;
  CHECK(engram_model_stats(model, 0, 0, &stats) == ENGRAM_OK && stats.keys == 2 * orders);
  CHECK(engram_model_stats(model, 0, 2, &stats) == ENGRAM_OK && stats.keys == 2);
  CHECK(engram_model_stats(model, 0, 1, &stats) == ENGRAM_OUT_OF_RANGE);
  engram_workspace_free(workspace);
  free(found.data);
  free(expected.data);
  free(keys);
}

static void keep_last(void* last, const char* message) {
  snprintf(last, 256, "%s", message);
}

/* What auto chose is told, table by table, and binary16 rows are those of binary32. */
static void check_log_and_f16(const char* directory) {
  char last[256] = "";
  engram_model_options options = {0};
  engram_model* model = NULL;
  engram_workspace* workspace = NULL;
  int64_t row = 3;
  uint16_t half[512] = {0};
  float wide[512] = {0};
  engram_row_output as_half = {sizeof as_half, ENGRAM_FORMAT_F16, half, sizeof half, 0};
  engram_row_output as_wide = {sizeof as_wide, ENGRAM_FORMAT_F32, wide, sizeof wide, 0};
  options.struct_bytes = sizeof options;
  options.tier = ENGRAM_TIER_AUTO;
  options.log = keep_last;
  options.log_user = last;
  CHECK(engram_model_open(directory, &options, &model) == ENGRAM_OK);
  CHECK(strstr(last, "layer ") == last && strstr(last, " bytes of rows") != NULL);
  CHECK(engram_workspace_create(&workspace) == ENGRAM_OK);
  CHECK(engram_model_lookup_rows(model, 0, &row, 1, workspace, &as_half) == ENGRAM_OK);
  CHECK(engram_model_lookup_rows(model, 0, &row, 1, workspace, &as_wide) == ENGRAM_OK);
  for (size_t i = 0; i < 256; ++i) { /* sign and, where it is normal, exponent */
    uint32_t bits = 0;
    memcpy(&bits, &wide[i], sizeof bits);
    CHECK(half[i] >> 15 == bits >> 31);
    CHECK((half[i] >> 10 & 31) == 0 || (half[i] >> 10 & 31) - 15 - ((bits >> 23 & 255) - 127) <= 1);
  }
  engram_workspace_free(workspace);
  engram_model_free(model);
}

/* A second process would do the same with the name alone. */
static void check_shared(const char* directory) {
  engram_model_options options = {0};
  engram_model* model = NULL;
  char name[64];
  snprintf(name, sizeof name, "consumer-%p", (void*)&options);
  options.struct_bytes = sizeof options;
  options.tier = ENGRAM_TIER_SHARED;
  CHECK(engram_model_open(directory, &options, &model) == ENGRAM_INVALID_ARGUMENT);
  options.shared_name = name;
  CHECK(engram_model_open(directory, &options, &model) == ENGRAM_NOT_FOUND);
  CHECK(engram_shared_load(directory, name, NULL) == ENGRAM_OK);
  CHECK(engram_model_open(directory, &options, &model) == ENGRAM_OK);
  CHECK(engram_shared_unload(name) == ENGRAM_OK);
  CHECK(engram_shared_unload(name) == ENGRAM_NOT_FOUND);
  engram_model_free(model);
}

static void write_rows(const engram_model* model, const engram_model_info* info, const char* path) {
  const engram_layer_info table = first_layer(model);
  const int64_t layer = table.layer_id;
  const size_t bytes = 4 * (size_t)info->orders * (size_t)info->heads * (size_t)table.raw_bytes;
  const size_t stream = (size_t)info->copies * (size_t)info->hidden_dim;
  engram_row_output output = {sizeof output, ENGRAM_FORMAT_RAW, malloc(bytes), bytes, 0};
  uint16_t* hidden = calloc(4 * stream, sizeof *hidden);
  engram_session* session = NULL;
  FILE* file = fopen(path, "wb");
  CHECK(output.data && hidden && file);
  CHECK(engram_session_create(model, &session) == ENGRAM_OK);
  CHECK(engram_session_advance(session, kTokens, NULL, 4) == ENGRAM_OK);
  CHECK(engram_session_prefetch(session, ENGRAM_PRIORITY_SOON) == ENGRAM_OK);
  CHECK(engram_session_lookup(session, layer, &output) == ENGRAM_OK);
  CHECK(fwrite(output.data, 1, bytes, file) == bytes && fclose(file) == 0);
  CHECK(engram_session_apply_bf16(session, layer, hidden, 4 * stream) == ENGRAM_OK);
  CHECK(hidden[0] != 0); /* a stream of zeros takes half of the value */
  CHECK(engram_session_apply_bf16(session, layer, hidden, stream) == ENGRAM_INVALID_ARGUMENT);
  engram_session_free(session);
  free(hidden);
  free(output.data);
}

int main(int argc, char** argv) {
  engram_model_options options = {0};
  engram_model_info info = {0};
  engram_model* model = NULL;
  if (argc != 3) return 2;
  options.struct_bytes = sizeof options;
  options.tier = ENGRAM_TIER_DIRECT;
  options.cache_bytes = 1 << 20;
  info.struct_bytes = sizeof info;
  CHECK(engram_model_open(argv[1], &options, &model) == ENGRAM_OK);
  CHECK(engram_model_describe(model, &info) == ENGRAM_OK);
  check_errors(model);
  check_paths_agree(model, &info);
  check_prefetch(model, &info);
  check_log_and_f16(argv[1]);
  check_shared(argv[1]);
  write_rows(model, &info, argv[2]);
  engram_model_free(model);
  return 0;
}
