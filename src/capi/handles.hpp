// What the opaque handles of engram.h hold, and how calls turn failures into codes.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "engram/engine.hpp"
#include "engram/engram.h"
#include "engram/status.hpp"

struct engram_token_map {
  engram::TokenMap map;
};

struct engram_model {
  engram::Engine engine;
};

struct engram_workspace {
  engram::LookupWorkspace workspace;
};

struct engram_session {
  engram::Session session;
};

struct engram_ticket {
  const engram::Memory* memory;
  engram::Ticket ticket;
};

namespace engram::capi {

// Exported are those that engram_mpi's own C interface uses.

// Remembers the error for engram_last_error and returns its code.
ENGRAM_API std::int32_t fail(const Error& error) noexcept;
ENGRAM_API std::int32_t fail(Code code, const char* message) noexcept;

// Runs `body` (returning Status) and gives its code; running out of memory is a code too.
template <typename Body>
std::int32_t guard(Body&& body) noexcept {
  try {
    const Status status = std::forward<Body>(body)();
    return status ? ENGRAM_OK : fail(status.error());
  } catch (const std::bad_alloc&) {
    return fail(Code::out_of_memory, "out of memory");
  } catch (...) {
    return fail(Code::internal, "unexpected exception");
  }
}

// guard for calls that make a handle: `make` returns Result<T>, and Handle{T} is what comes out.
template <typename Handle, typename Make>
std::int32_t make_handle(Handle** out, Make&& make) noexcept {
  if (out == nullptr) return fail(Code::invalid_argument, "the output handle is NULL");
  *out = nullptr;
  return guard([&]() -> Status {
    auto value = std::forward<Make>(make)();
    if (!value) return std::move(value).error();
    *out = std::make_unique<Handle>(Handle{*std::move(value)}).release();
    return {};
  });
}

// Null arguments that the header does not allow.
ENGRAM_API Error null_argument(const char* name);

// A span of a C array; an empty one where the pointer is NULL and the count 0.
template <typename T>
Result<std::span<T>> span_of(T* data, std::size_t count, const char* name) {
  if (data == nullptr && count != 0) return null_argument(name);
  return std::span<T>(data, count);
}

// The C++ form of options, which may be NULL; checks every field.
ENGRAM_API Result<EngineOptions> engine_options(const engram_model_options* given);
Result<Priority> priority_of(std::int32_t priority);

// The tables of a model; Code::unavailable where it was opened without.
Result<const Memory*> tables_of(const engram_model* model);

// The C++ form of an output description; checks its size and format.
Result<RowOutput> row_output(const engram_row_output* output);

}  // namespace engram::capi
