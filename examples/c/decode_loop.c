/* A runtime's decode loop: decode_loop MODEL
 *
 * Prefills a prompt, then decodes with speculative drafts. Every step
 *   1. prepares the token and its drafts, and begins both layers' lookups before any block runs;
 *   2. adds the gated memory to the residual stream before each Engram layer;
 *   3. commits what the verifier accepted. The rest leaves no trace: at the end the same tokens in
 *      one piece give the same rows.
 *
 * The "model" around it is a stand-in: a residual stream of ones, and a verifier that accepts as
 * many drafts as the step's number has twos. Build: cc decode_loop.c $(pkg-config --cflags --libs
 * engram) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engram/engram.h"

#define TRY(call)                                                \
  do {                                                           \
    if ((call) != ENGRAM_OK) {                                   \
      fprintf(stderr, "decode_loop: %s\n", engram_last_error()); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

enum { kPrompt = 8, kDrafts = 3, kSteps = 12, kTokensMax = kPrompt + kSteps * (1 + kDrafts) };

/* What a sampler and a draft model would give. */
static int32_t token_at(size_t position) { return (int32_t)(5 + (position * 7) % 50); }

static size_t accepted_drafts(int step) {
  size_t twos = 0;
  for (; step % 2 == 0 && step > 0; step /= 2) ++twos;
  return twos < kDrafts ? twos : kDrafts;
}

/* Memory into the stream of `count` tokens, layer by layer as the blocks are reached. */
static void run_blocks(const engram_model* model, engram_session* session, size_t count,
                       const engram_model_info* info) {
  const size_t stream = (size_t)info->copies * (size_t)info->hidden_dim;
  float* hidden = malloc(count * stream * sizeof *hidden);
  if (hidden == NULL) exit(1);
  for (size_t i = 0; i < count * stream; ++i) hidden[i] = 1.0f;
  for (int32_t table = 0; table < info->layers; ++table) {
    engram_layer_info layer = {0};
    layer.struct_bytes = sizeof layer;
    TRY(engram_model_describe_layer(model, table, &layer));
    /* ... the blocks before this layer run here, while its rows arrive ... */
    TRY(engram_session_apply_f32(session, layer.layer_id, hidden, count * stream));
  }
  free(hidden);
}

/* Rows of the session's last token at the first layer: a fingerprint of its n-grams. */
static int64_t* last_rows(const engram_model* model, const engram_session* session, size_t last,
                          const engram_model_info* info) {
  const size_t columns = (size_t)info->orders * (size_t)info->heads;
  const size_t count = engram_session_length(session) * columns;
  engram_layer_info layer = {0};
  int64_t* rows = malloc(count * sizeof *rows);
  if (rows == NULL) exit(1);
  layer.struct_bytes = sizeof layer;
  TRY(engram_model_describe_layer(model, 0, &layer));
  TRY(engram_session_rows(session, layer.layer_id, rows, count));
  memmove(rows, rows + last * columns, columns * sizeof *rows);
  return rows;
}

int main(int argc, char** argv) {
  engram_model_options options = {0};
  engram_model_info info = {0};
  engram_table_stats stats = {0};
  engram_model* model = NULL;
  engram_session* session = NULL;
  engram_session* whole = NULL;
  int32_t tokens[kTokensMax];
  size_t position = kPrompt;
  size_t last = 0;
  if (argc != 2) return 2;
  for (size_t i = 0; i < kTokensMax; ++i) tokens[i] = token_at(i);

  options.struct_bytes = sizeof options;
  options.tier = ENGRAM_TIER_AUTO;
  options.cache_bytes = 16u << 20;
  TRY(engram_model_open(argv[1], &options, &model));
  info.struct_bytes = sizeof info;
  TRY(engram_model_describe(model, &info));
  TRY(engram_session_create(model, &session));
  TRY(engram_session_advance(session, tokens, NULL, kPrompt));
  run_blocks(model, session, kPrompt, &info);

  for (int step = 1; step <= kSteps; ++step) {
    int32_t chunk[1 + kDrafts];
    const size_t accepted = 1 + accepted_drafts(step);
    memcpy(chunk, tokens + position, sizeof chunk);
    if (accepted <= kDrafts) chunk[accepted] += 1; /* the first wrong draft */
    TRY(engram_session_prepare(session, chunk, NULL, 1 + kDrafts));
    TRY(engram_session_prefetch(session, ENGRAM_PRIORITY_SOON));
    run_blocks(model, session, 1 + kDrafts, &info);
    TRY(engram_session_commit(session, accepted));
    last = accepted - 1;
    position += accepted;
  }

  TRY(engram_session_create(model, &whole));
  TRY(engram_session_advance(whole, tokens, NULL, position));
  int64_t* stepped = last_rows(model, session, last, &info);
  int64_t* at_once = last_rows(model, whole, position - 1, &info);
  const size_t columns = (size_t)info.orders * (size_t)info.heads;
  const int equal = memcmp(stepped, at_once, columns * sizeof *stepped) == 0;
  stats.struct_bytes = sizeof stats;
  TRY(engram_model_stats(model, 0, 0, &stats));
  printf("%zu tokens in %d steps; speculation left %s trace; %llu n-grams asked for, %llu cached\n",
         position, kSteps, equal ? "no" : "a", (unsigned long long)stats.keys,
         (unsigned long long)stats.hits);
  free(at_once);
  free(stepped);
  engram_session_free(whole);
  engram_session_free(session);
  engram_model_free(model);
  return equal ? 0 : 1;
}
