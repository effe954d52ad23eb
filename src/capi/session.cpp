// The C interface of sessions.
#include "capi/handles.hpp"

using namespace engram;        // NOLINT(google-build-using-namespace): one file, its own module
using namespace engram::capi;  // NOLINT(google-build-using-namespace)

namespace {

// Checks what advance and prepare share, then calls `step(tokens, mask)`.
template <typename Step>
int32_t feed(engram_session* session, const int32_t* tokens, const uint8_t* mask, size_t count,
             Step step) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const auto in = span_of(tokens, count, "tokens");
    if (!in) return in.error();
    return step(*in, std::span<const std::uint8_t>(mask, mask == nullptr ? 0 : count));
  });
}

}  // namespace

extern "C" {

int32_t engram_session_create(const engram_model* model, engram_session** session) {
  return make_handle(session, [&]() -> Result<Session> {
    if (model == nullptr) return null_argument("model");
    return Session(model->engine);
  });
}

int32_t engram_session_copy(const engram_session* session, engram_session** copy) {
  return make_handle(copy, [&]() -> Result<Session> {
    if (session == nullptr) return null_argument("session");
    return Session(session->session);
  });
}

void engram_session_free(engram_session* session) {
  const std::unique_ptr<engram_session> owned(session);
}

int32_t engram_session_advance(engram_session* session, const int32_t* tokens, const uint8_t* mask,
                               size_t count) {
  return feed(session, tokens, mask, count,
              [&](auto in, auto with) { return session->session.advance(in, with); });
}

int32_t engram_session_prepare(engram_session* session, const int32_t* tokens, const uint8_t* mask,
                               size_t count) {
  return feed(session, tokens, mask, count,
              [&](auto in, auto with) { return session->session.prepare(in, with); });
}

int32_t engram_session_commit(engram_session* session, size_t accepted) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return session->session.commit(accepted);
  });
}

uint64_t engram_session_position(const engram_session* session) {
  return session == nullptr ? 0 : session->session.position();
}

size_t engram_session_length(const engram_session* session) {
  return session == nullptr ? 0 : session->session.length();
}

int32_t engram_session_rows(const engram_session* session, int64_t layer_id, int64_t* rows,
                            size_t row_count) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const auto out = span_of(rows, row_count, "rows");
    if (!out) return out.error();
    return session->session.rows(layer_id, *out);
  });
}

int32_t engram_session_lookup(engram_session* session, int64_t layer_id,
                              const engram_row_output* output) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const auto out = row_output(output);
    if (!out) return out.error();
    return session->session.lookup(layer_id, *out);
  });
}

int32_t engram_session_apply_f32(engram_session* session, int64_t layer_id, float* hidden,
                                 size_t count) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const auto stream = span_of(hidden, count, "hidden");
    if (!stream) return stream.error();
    return session->session.apply(layer_id, *stream, Rounding::reference);
  });
}

int32_t engram_session_apply_bf16(engram_session* session, int64_t layer_id, uint16_t* hidden,
                                  size_t count) {
  return guard([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const auto stream = span_of(hidden, count, "hidden");
    if (!stream) return stream.error();
    return session->session.apply(layer_id, *stream);
  });
}

}  // extern "C"
