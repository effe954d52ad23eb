/* libengram from C: token ids to gated residual, for runtimes in any language.
 *
 * Conventions, for every function below:
 *
 * - Returns an int32_t code, 0 (ENGRAM_OK) on success; codes never change meaning. On failure
 *   engram_last_error() gives one sentence: what, where, expected, found.
 * - Outputs come last. On failure handles are set to NULL and other outputs are unspecified, except
 *   where "untouched" is said.
 * - Arrays are a pointer and a count of elements. A pointer may be NULL where its count is 0, or
 *   where the comment says so.
 * - Handles are opaque and freed by their own _free, which accepts NULL. A session, and rows being
 *   looked up, need their model alive.
 * - Option structs begin with struct_bytes = sizeof the struct: older callers keep working when
 *   fields are added at the end. Zero in any other field means its default.
 * - Threads: token maps and models may be used by any number of threads at once. A session or a
 *   workspace belongs to one thread at a time. Only _free needs every other call to have ended.
 * - The library never prints, exits or aborts, and keeps no global state but the last error, which is
 *   the calling thread's own.
 *
 * Strings are UTF-8 and end in 0. All numbers are little endian in memory. */
#ifndef ENGRAM_ENGRAM_H_
#define ENGRAM_ENGRAM_H_

#include <stddef.h>
#include <stdint.h>

#include "engram/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when a function or field is added; code compiled for an older version keeps working. */
#define ENGRAM_ABI_VERSION 3u
ENGRAM_API uint32_t engram_abi_version(void);

enum {
  ENGRAM_OK = 0,
  ENGRAM_INVALID_ARGUMENT = 1, /* the call is wrong: fix the caller */
  ENGRAM_NOT_FOUND = 2,        /* a file, tensor or layer is not there */
  ENGRAM_CORRUPT = 3,          /* bytes contradict their own description */
  ENGRAM_UNSUPPORTED = 4,      /* well-formed, but not read by this library */
  ENGRAM_IO = 5,               /* the operating system refused */
  ENGRAM_OUT_OF_MEMORY = 6,    /* the plan does not fit this machine */
  ENGRAM_OUT_OF_RANGE = 7,     /* an id or index outside its table */
  ENGRAM_UNAVAILABLE = 8,      /* not loaded, or not now */
  ENGRAM_INTERNAL = 9          /* our bug */
};

/* The sentence of this thread's last failure; valid until the thread's next call. Never NULL. */
ENGRAM_API const char* engram_last_error(void);
/* "invalid_argument", "corrupt", ...; "unknown" for other numbers. Static storage. */
ENGRAM_API const char* engram_code_name(int32_t code);

/* ---- Token map: token ids to compressed ids ---------------------------------------------------- */
typedef struct engram_token_map engram_token_map;
/* From a Hugging Face tokenizer.json. */
ENGRAM_API int32_t engram_token_map_open(const char* tokenizer_path, engram_token_map** map);
/* From a file of int32, as `engram token-map --output` writes it. */
ENGRAM_API int32_t engram_token_map_load(const char* path, engram_token_map** map);
ENGRAM_API void engram_token_map_free(engram_token_map* map);

ENGRAM_API int64_t engram_token_map_length(const engram_token_map* map);
ENGRAM_API int64_t engram_token_map_compressed_size(const engram_token_map* map);
/* 64 hexadecimal digits; lives as long as the map. */
ENGRAM_API const char* engram_token_map_sha256(const engram_token_map* map);

/* tokens [count], mask [count] or NULL (1 text, 0 takes no part) -> compressed [count]; -1 where the
 * mask is 0, whatever the id there. ENGRAM_OUT_OF_RANGE for any other id outside the map; then
 * compressed is untouched. */
ENGRAM_API int32_t engram_token_map_compress(const engram_token_map* map, const int32_t* tokens,
                                             const uint8_t* mask, size_t count,
                                             int32_t* compressed);

/* ---- Model: a loaded model directory, immutable ------------------------------------------------ */
typedef struct engram_model engram_model;
enum { ENGRAM_LOAD_GATES = 0, ENGRAM_LOAD_ROWS = 1, ENGRAM_LOAD_ADDRESSES = 2 };
enum { ENGRAM_TIER_MMAP = 0, ENGRAM_TIER_RAM, ENGRAM_TIER_DIRECT, ENGRAM_TIER_SHARED, ENGRAM_TIER_AUTO };
enum { ENGRAM_NAN_PROPAGATE = 0, ENGRAM_NAN_REJECT = 1 };

/* Called while loading, from the thread that called open: now and then, with bytes done of total. */
typedef void (*engram_progress)(void* user, uint64_t done, uint64_t total);

typedef struct engram_model_options {
  uint32_t struct_bytes;
  int32_t load;       /* ENGRAM_LOAD_*: tables and gates, tables, or config and tokenizer only */
  int32_t tier;       /* ENGRAM_TIER_* */
  int32_t nan_policy; /* ENGRAM_NAN_*: what to do with rows that are not finite */
  int32_t threads;    /* for loading and for the gate; 0 means 1 */
  uint32_t reserved;
  const char* tokenizer_path;   /* NULL: tokenizer.json of the model directory */
  const char* token_map_sha256; /* NULL: the config's own, or the release's published one */
  engram_progress progress;     /* may be NULL */
  void* progress_user;
  /* Since version 2: */
  uint64_t cache_bytes;    /* for rows of n-grams met before; 0: none */
  const char* shared_name; /* of ENGRAM_TIER_SHARED: what `engram load` was given */
  uint64_t shared_wait_ms; /* how long to wait until it is filled */
  /* Since version 3: what auto chose and why, where tables lie; a sentence each, from open. */
  void (*log)(void* user, const char* message); /* may be NULL */
  void* log_user;
} engram_model_options;

/* options may be NULL. Everything is checked before anything is served. */
ENGRAM_API int32_t engram_model_open(const char* directory, const engram_model_options* options,
                                     engram_model** model);
ENGRAM_API void engram_model_free(engram_model* model);

typedef struct engram_model_info {
  uint32_t struct_bytes;
  int32_t layers;     /* tables */
  int32_t orders;     /* n-gram orders, from 2 on */
  int32_t heads;      /* rows per order */
  int32_t head_dim;   /* numbers per row */
  int32_t copies;     /* residual streams */
  int32_t hidden_dim; /* of one stream */
} engram_model_info;
/* Fills as many bytes as info->struct_bytes says. */
ENGRAM_API int32_t engram_model_describe(const engram_model* model, engram_model_info* info);
typedef struct engram_layer_info {
  uint32_t struct_bytes;
  int32_t raw_bytes;  /* bytes of a stored row, which two layers may differ in; 0 without tables */
  int64_t layer_id;   /* 1 or 14 in V4.1 */
  uint64_t row_count; /* rows that ids may name */
} engram_layer_info;

/* The layer of a table index in 0 .. layers-1. */
ENGRAM_API int32_t engram_model_describe_layer(const engram_model* model, int32_t table_index,
                                               engram_layer_info* info);

/* ---- Hashing many sequences at once, without sessions ------------------------------------------- */
enum { ENGRAM_BEFORE_START = -1, ENGRAM_MASKED = -2 };

/* What a runtime with paged sequences has at hand. Sequence i is tokens[query_start[i] ..
 * query_start[i+1]) (query_start [sequences + 1], ascending from 0 to count).
 * lookback [sequences, orders]: raw token ids before it, newest first; ENGRAM_MASKED for a position
 * that takes no part, ENGRAM_BEFORE_START from the start of the sequence on. A known id after
 * ENGRAM_BEFORE_START is missing history and refused: guessing it would read other rows silently.
 * mask [count] or NULL. -> keys [layers, count, orders]. On failure keys are untouched. */
ENGRAM_API int32_t engram_model_hash(const engram_model* model, const int32_t* tokens,
                                     const uint8_t* mask, size_t count, const int64_t* query_start,
                                     const int32_t* lookback, size_t sequences, uint64_t* keys);

/* keys [key_count] of one layer, a whole number of positions -> rows [key_count * heads]. */
ENGRAM_API int32_t engram_model_rows(const engram_model* model, int32_t table_index,
                                     const uint64_t* keys, size_t key_count, int64_t* rows);

/* ---- Lookup ------------------------------------------------------------------------------------ */
/* Scratch memory that lookups reuse; none allocates once the largest batch has been seen. */
typedef struct engram_workspace engram_workspace;
ENGRAM_API int32_t engram_workspace_create(engram_workspace** workspace);
ENGRAM_API void engram_workspace_free(engram_workspace* workspace);

enum { ENGRAM_FORMAT_BF16 = 0, ENGRAM_FORMAT_F32, ENGRAM_FORMAT_RAW, ENGRAM_FORMAT_F16 };

/* Where rows go: row i at data + i * stride_bytes (0: one after another), naturally aligned. The
 * memory is the caller's, pinned or shared as it likes. */
typedef struct engram_row_output {
  uint32_t struct_bytes;
  int32_t format; /* ENGRAM_FORMAT_* */
  void* data;
  size_t data_bytes;
  size_t stride_bytes;
} engram_row_output;

/* keys [key_count] of one layer -> key_count * heads rows. Equal keys are read once. */
ENGRAM_API int32_t engram_model_lookup(const engram_model* model, int32_t table_index,
                                       const uint64_t* keys, size_t key_count,
                                       engram_workspace* workspace,
                                       const engram_row_output* output);
/* rows [row_count], ids in the whole table -> row_count rows. Equal ids are read once. */
ENGRAM_API int32_t engram_model_lookup_rows(const engram_model* model, int32_t table_index,
                                            const int64_t* rows, size_t row_count,
                                            engram_workspace* workspace,
                                            const engram_row_output* output);

/* ---- Prefetch: a lookup in two halves ---------------------------------------------------------- */
typedef struct engram_ticket engram_ticket;
enum { ENGRAM_PRIORITY_NOW = 0, ENGRAM_PRIORITY_SOON = 1, ENGRAM_PRIORITY_WHENEVER = 2 };

/* Begins a lookup and returns at once; begin every layer before waiting for the first. */
ENGRAM_API int32_t engram_model_prefetch(const engram_model* model, int32_t table_index,
                                         const uint64_t* keys, size_t key_count, int32_t priority,
                                         engram_ticket** ticket);
/* 1 where engram_ticket_wait would not wait; never blocks. */
ENGRAM_API int32_t engram_ticket_ready(const engram_ticket* ticket);
/* The rows of engram_model_lookup, once. The ticket is spent, also on failure, and still to be freed. */
ENGRAM_API int32_t engram_ticket_wait(engram_ticket* ticket, const engram_row_output* output);
/* Before a wait: gives the lookup up. */
ENGRAM_API void engram_ticket_free(engram_ticket* ticket);

/* ---- Statistics and shared memory --------------------------------------------------------------- */
typedef struct engram_table_stats {
  uint32_t struct_bytes, reserved;
  uint64_t keys, unique, hits; /* asked for; distinct in their batch; of those, found in the cache */
  uint64_t reads, read_bytes;  /* of files, by tiers that read them */
  uint64_t wait_ns;            /* spent waiting for rows */
} engram_table_stats;

/* Since the model was opened; order 2, 3, ... counts keys, unique and hits of that order alone, 0 all. */
ENGRAM_API int32_t engram_model_stats(const engram_model* model, int32_t table_index, int32_t order,
                                      engram_table_stats* stats);

/* Fills memory that processes of this host attach to with ENGRAM_TIER_SHARED; of options, threads and
 * progress are used. It stays until unloaded; a process that dies early leaves nothing to attach to. */
ENGRAM_API int32_t engram_shared_load(const char* directory, const char* name,
                                      const engram_model_options* options);
ENGRAM_API int32_t engram_shared_unload(const char* name);

/* ---- Session: one token timeline ---------------------------------------------------------------- */
typedef struct engram_session engram_session;
ENGRAM_API int32_t engram_session_create(const engram_model* model, engram_session** session);
/* A fork, or a snapshot to return to. */
ENGRAM_API int32_t engram_session_copy(const engram_session* session, engram_session** copy);
ENGRAM_API void engram_session_free(engram_session* session);

/* Makes tokens [count] (mask [count] or NULL) the current chunk and moves past it. On failure nothing
 * has changed. */
ENGRAM_API int32_t engram_session_advance(engram_session* session, const int32_t* tokens,
                                          const uint8_t* mask, size_t count);
/* The same without moving: drafts. Then commit moves past the accepted ones; the rest leave no trace. */
ENGRAM_API int32_t engram_session_prepare(engram_session* session, const int32_t* tokens,
                                          const uint8_t* mask, size_t count);
ENGRAM_API int32_t engram_session_commit(engram_session* session, size_t accepted);

/* Begins the lookups of the current chunk in every layer; lookup and apply take what has come. */
ENGRAM_API int32_t engram_session_prefetch(engram_session* session, int32_t priority);

/* Committed tokens so far, and tokens of the current chunk. */
ENGRAM_API uint64_t engram_session_position(const engram_session* session);
ENGRAM_API size_t engram_session_length(const engram_session* session);

/* rows [length, orders * heads] of the current chunk at one layer; row_count is the room there. */
ENGRAM_API int32_t engram_session_rows(const engram_session* session, int64_t layer_id,
                                       int64_t* rows, size_t row_count);
ENGRAM_API int32_t engram_session_lookup(engram_session* session, int64_t layer_id,
                                         const engram_row_output* output);

/* hidden [length, copies, hidden_dim], updated in place with the gated memory of the current chunk;
 * count is its elements. Rounds to bfloat16 where the reference does; masked tokens keep their bits. */
ENGRAM_API int32_t engram_session_apply_f32(engram_session* session, int64_t layer_id, float* hidden,
                                            size_t count);
ENGRAM_API int32_t engram_session_apply_bf16(engram_session* session, int64_t layer_id,
                                             uint16_t* hidden, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* ENGRAM_ENGRAM_H_ */
