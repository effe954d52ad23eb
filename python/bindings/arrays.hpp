// Arrays of other Python libraries as spans, without copies: NumPy, and whatever speaks DLPack.
//
// Every mistake (element type, shape, contiguity, device, writability) raises
// InvalidArgumentError: "rows: expected int64 [..., 24], C-contiguous on the CPU, found ...".
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engram/gate.hpp"
#include "engram/memory.hpp"
#include "engram/types.hpp"

#include "errors.hpp"

namespace engram::python {

namespace nb = nanobind;

using Shape = std::vector<std::size_t>;

// "[3, 24]".
std::string shape_text(const Shape& shape);
std::size_t count_of(const Shape& shape);

// A borrowed array: keeps its memory alive. Elements are at most 8 bytes.
class Array {
 public:
  // Anything that can be read as an array, C-contiguous; lists and tuples of numbers too.
  static Array input(nb::handle object, const char* name);
  // One to write into, any strides.
  static Array output(nb::handle object, const char* name);

  const char* name() const { return name_; }
  const Shape& shape() const { return shape_; }
  std::size_t size() const { return count_of(shape_); }
  nb::dlpack::dtype dtype() const { return dtype_; }
  std::span<const std::int64_t> strides() const { return strides_; }  // in elements
  std::byte* data() const { return data_; }

  bool is(nb::dlpack::dtype_code code, int bits) const;
  // bfloat16, or its bit patterns as uint16.
  bool is_bf16() const;
  bool contiguous() const;
  // Raises; `expected` goes on "name: expected ".
  [[noreturn]] void refuse(const std::string& expected) const;

  template <typename T>
  std::span<T> elements() const {
    return {reinterpret_cast<T*>(data_), size()};
  }

 private:
  template <typename NdArray>
  Array(const NdArray& array, const char* name);
  std::string text() const;

  nb::ndarray<nb::ro> read_;  // one of the two is set
  nb::ndarray<> write_;
  const char* name_ = nullptr;
  Shape shape_;
  std::vector<std::int64_t> strides_;
  nb::dlpack::dtype dtype_{};
  std::byte* data_ = nullptr;
  int device_ = 0;
};

// Whole numbers as T: borrowed where they are stored so, copied with a range check from int32 and
// int64. Shapes are the caller's business.
template <typename T>
class Integers {
 public:
  Integers(nb::handle object, const char* name);
  std::span<const T> values() const { return values_; }
  const Shape& shape() const { return array_.shape(); }
  const Array& array() const { return array_; }

 private:
  Array array_;
  std::vector<T> copy_;
  std::span<const T> values_;
};

// Rolling keys: uint64, or int64 (they are below 2^63).
std::span<const Key> key_values(const Array& array);

// A mask [length] of bool or uint8, or of int64 (a list), which is copied; None is an empty one.
class Mask {
 public:
  Mask(nb::handle object, std::size_t length);
  std::span<const std::uint8_t> values() const { return values_; }

 private:
  std::optional<Array> array_;
  std::vector<std::uint8_t> copy_;
  std::span<const std::uint8_t> values_;
};

// Raises unless `array` is a residual stream of this shape: float32, or, unless rounding is none,
// bfloat16.
void check_stream(const Array& array, const Shape& shape, Rounding rounding);

// Where gate values go: float32 of this shape; None is an empty one.
class GatesOut {
 public:
  GatesOut(nb::handle object, const Shape& shape);
  std::span<float> values() const { return values_; }

 private:
  std::optional<Array> array_;
  std::span<float> values_;
};

// A new NumPy array: dtype by NumPy's name ("uint16", ...).
nb::object empty(const Shape& shape, const char* dtype);

// A new NumPy array with a copy of `values`.
template <typename T>
nb::object copied(std::span<const T> values, const Shape& shape, const char* dtype);

// Where rows of a lookup go: the array given, or a new one.
struct RowsOut {
  nb::object array;
  std::optional<Array> borrowed;  // keeps it alive and in place during the call
  RowOutput output;
};
// lead: the shape of rows, without their elements. `dtype`: "bf16", "f16", "f32", "raw" or None
// (what `out` has, else bf16). `row_bytes(format)`: bytes of one output row.
RowsOut rows_out(nb::handle out, nb::handle dtype, const Shape& lead,
                 const std::function<std::size_t(OutputFormat)>& row_bytes);

}  // namespace engram::python
