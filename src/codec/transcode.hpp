// Rows of one format to rows of another: bytes where the formats allow it, values otherwise.
#pragma once

#include <cstddef>
#include <memory>

#include "engram/status.hpp"
#include "engram/types.hpp"

#include "simd/mxfp4.hpp"

namespace engram {

// Immutable; any number of threads may use one.
class Transcoder {
 public:
  // Code::unsupported where `to` cannot be written, or head_dim is not whole blocks of it.
  static Result<Transcoder> create(const RowLayout& from, const RowLayout& to,
                                   const Mxfp4Rule& rule);

  // packed rows [count, from.row_bytes()] -> out [count, to.row_bytes()]. Returns the index of the
  // first row with a value that is not finite (nothing is promised about `out` from there on), or
  // `count`.
  std::size_t run(const std::byte* packed, std::size_t count, std::byte* out) const;

  const RowLayout& from() const { return from_; }
  const RowLayout& to() const { return to_; }

 private:
  enum class Way { copy, expand, permute, decode, mxfp4_table, quantise };
  Transcoder(const RowLayout& from, const RowLayout& to, const Mxfp4Rule& rule);
  bool run_row(const std::byte* packed, std::byte* out) const;
  bool quantise_row(const std::byte* packed, std::byte* out) const;

  RowLayout from_;
  RowLayout to_;
  Mxfp4Rule rule_;
  Way way_;
  std::shared_ptr<const simd::Mxfp4Tables> tables_;
};

}  // namespace engram
