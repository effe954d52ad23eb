// Arrays of other Python libraries as spans, without copies: NumPy, and whatever speaks DLPack.
#include "arrays.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>

#include "errors.hpp"

namespace engram::python {
namespace {

using nb::dlpack::dtype_code;

constexpr int kCpu = 1;  // kDLCPU; pinned memory of a CUDA host (3) is the CPU's as well
constexpr int kCudaHost = 3;

nb::object numpy(const char* name) { return nb::module_::import_("numpy").attr(name); }

std::string dtype_text(nb::dlpack::dtype dtype) {
  std::string kind = "unknown";
  switch (static_cast<dtype_code>(dtype.code)) {
    case dtype_code::Int:
      kind = "int";
      break;
    case dtype_code::UInt:
      kind = "uint";
      break;
    case dtype_code::Float:
      kind = "float";
      break;
    case dtype_code::Bfloat:
      kind = "bfloat";
      break;
    case dtype_code::Bool:
      return "bool";
    case dtype_code::Complex:
      kind = "complex";
      break;
    default:
      break;
  }
  return kind + std::to_string(dtype.bits);
}

// Whether `object` is an array of ml_dtypes.bfloat16, which neither DLPack of NumPy nor the buffer
// protocol can pass on.
bool is_ml_bfloat16(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return false;
  return str_of(object.attr("dtype")) == "bfloat16";
}

template <typename NdArray>
std::optional<NdArray> import(nb::handle object) {
  NdArray array;
  if (nb::try_cast(object, array) && array.is_valid()) return array;
  if (is_ml_bfloat16(object)) {
    const nb::object words = object.attr("view")("uint16");
    if (nb::try_cast(words, array)) return array;
  }
  return {};
}

template <typename List>
std::string list_text(const List& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text + "]";
}

[[noreturn]] void not_an_array(nb::handle object, const char* name, const char* expected) {
  raise(Code::invalid_argument, std::string(name) + ": expected " + expected + ", found '" +
                                    nb::cast<std::string>(object.type().attr("__name__")) + "'");
}

}  // namespace

std::string shape_text(const Shape& shape) { return list_text(shape); }

std::size_t count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

template <typename NdArray>
Array::Array(const NdArray& array, const char* name)
    : name_(name),
      dtype_(array.dtype()),
      data_(static_cast<std::byte*>(array.data_handle()) + array.byte_offset()),
      device_(array.device_type()) {
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape_.push_back(array.shape(i));
    strides_.push_back(array.stride(i));
  }
  if (dtype_.lanes != 1) refuse("one element per entry");
  if (device_ != kCpu && device_ != kCudaHost) refuse("memory of the CPU");
  if (size() != 0 && reinterpret_cast<std::uintptr_t>(data_) % (dtype_.bits / 8) != 0) {
    refuse("naturally aligned elements");
  }
}

Array Array::input(nb::handle object, const char* name) {
  nb::object source = nb::borrow(object);
  if (nb::isinstance<nb::list>(source) || nb::isinstance<nb::tuple>(source)) {
    source = numpy("asarray")(source);
    // NumPy makes an empty list a list of floating-point numbers.
    if (nb::cast<std::size_t>(source.attr("size")) == 0) source = source.attr("astype")("int64");
  }
  auto imported = import <nb::ndarray<nb::ro>>(source);
  if (!imported) not_an_array(object, name, "an array that NumPy or DLPack can read");
  Array array(*imported, name);
  array.read_ = *std::move(imported);
  if (!array.contiguous()) array.refuse("a C-contiguous array");
  return array;
}

Array Array::output(nb::handle object, const char* name) {
  auto imported = import <nb::ndarray<>>(object);
  if (!imported) not_an_array(object, name, "a writable array of NumPy or DLPack");
  Array array(*imported, name);
  array.write_ = *std::move(imported);
  return array;
}

bool Array::is(dtype_code code, int bits) const {
  return dtype_.code == static_cast<std::uint8_t>(code) && dtype_.bits == bits;
}

bool Array::is_bf16() const { return is(dtype_code::Bfloat, 16) || is(dtype_code::UInt, 16); }

bool Array::contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != expected) return size() == 0;
    expected *= static_cast<std::int64_t>(shape_[i]);
  }
  return true;
}

std::string Array::text() const {
  std::string text = dtype_text(dtype_) + " " + shape_text(shape_);
  if (!contiguous()) text += " with strides " + list_text(strides_);
  if (device_ != kCpu && device_ != kCudaHost) text += " on device type " + std::to_string(device_);
  return text;
}

void Array::refuse(const std::string& expected) const {
  raise(Code::invalid_argument,
        std::string(name_) + ": expected " + expected + ", found " + text());
}

template <typename T>
Integers<T>::Integers(nb::handle object, const char* name) : array_(Array::input(object, name)) {
  if (array_.is(dtype_code::Int, 8 * sizeof(T))) {
    values_ = array_.elements<const T>();
    return;
  }
  const auto copy = [&](auto values) {
    copy_.reserve(values.size());
    for (const auto value : values) {
      if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
        raise(Code::out_of_range, std::string(name) + ": " + std::to_string(value) +
                                      " does not fit " + std::to_string(8 * sizeof(T)) + " bits");
      }
      copy_.push_back(static_cast<T>(value));
    }
  };
  if (array_.is(dtype_code::Int, 64)) {
    copy(array_.elements<const std::int64_t>());
  } else if (array_.is(dtype_code::Int, 32)) {
    copy(array_.elements<const std::int32_t>());
  } else {
    array_.refuse("int32 or int64");
  }
  values_ = copy_;
}

template class Integers<std::int32_t>;
template class Integers<std::int64_t>;

std::span<const Key> key_values(const Array& array) {
  if (!array.is(dtype_code::UInt, 64) && !array.is(dtype_code::Int, 64)) array.refuse("uint64");
  return array.elements<const Key>();
}

Mask::Mask(nb::handle object, std::size_t length) {
  if (object.is_none()) return;
  array_ = Array::input(object, "mask");
  if (array_->size() != length) {
    array_->refuse(std::to_string(length) + " values, one per token");
  }
  if (array_->is(dtype_code::Bool, 8) || array_->is(dtype_code::UInt, 8)) {
    values_ = array_->elements<const std::uint8_t>();
    return;
  }
  if (!array_->is(dtype_code::Int, 64)) array_->refuse("bool, uint8 or int64");
  for (const std::int64_t value : array_->elements<const std::int64_t>()) {
    copy_.push_back(value != 0 ? 1 : 0);
  }
  values_ = copy_;
}

void check_stream(const Array& array, const Shape& shape, Rounding rounding) {
  const bool wide = array.is(dtype_code::Float, 32);
  if ((!wide && !array.is_bf16()) || array.shape() != shape || !array.contiguous()) {
    array.refuse("C-contiguous float32, bfloat16 or uint16 (bfloat16 bits) " + shape_text(shape));
  }
  if (!wide && rounding == Rounding::none) array.refuse("float32, since rounding is \"none\"");
}

GatesOut::GatesOut(nb::handle object, const Shape& shape) {
  if (object.is_none()) return;
  array_ = Array::output(object, "gates");
  if (!array_->is(dtype_code::Float, 32) || !array_->contiguous() || array_->shape() != shape) {
    array_->refuse("C-contiguous float32 " + shape_text(shape));
  }
  values_ = array_->elements<float>();
}

nb::object empty(const Shape& shape, const char* dtype) {
  nb::list extents;
  for (const std::size_t extent : shape) extents.append(extent);
  return numpy("empty")(extents, dtype);
}

template <typename T>
nb::object copied(std::span<const T> values, const Shape& shape, const char* dtype) {
  nb::object array = empty(shape, dtype);
  const Array place = Array::output(array, "array");
  if (!values.empty()) std::memcpy(place.data(), values.data(), values.size_bytes());
  return array;
}

template nb::object copied(std::span<const std::int32_t>, const Shape&, const char*);
template nb::object copied(std::span<const std::int64_t>, const Shape&, const char*);
template nb::object copied(std::span<const std::uint64_t>, const Shape&, const char*);

namespace {

struct FormatName {
  const char* name;
  OutputFormat format;
  const char* numpy_dtype;
  std::size_t item_bytes;
};
constexpr std::array<FormatName, 4> kFormats = {{{"bf16", OutputFormat::bf16, "uint16", 2},
                                                 {"f16", OutputFormat::f16, "float16", 2},
                                                 {"f32", OutputFormat::f32, "float32", 4},
                                                 {"raw", OutputFormat::raw, "uint8", 1}}};

const FormatName& format_by_name(nb::handle dtype) {
  const std::string name = str_of(nb::borrow(dtype));
  for (const FormatName& format : kFormats) {
    if (name == format.name) return format;
  }
  raise(Code::invalid_argument, "dtype: expected bf16, f16, f32 or raw, found '" + name + "'");
}

bool holds(const Array& array, OutputFormat format) {
  switch (format) {
    case OutputFormat::bf16:
      return array.is_bf16();
    case OutputFormat::f16:
      return array.is(dtype_code::Float, 16);
    case OutputFormat::f32:
      return array.is(dtype_code::Float, 32);
    case OutputFormat::raw:
      return array.is(dtype_code::UInt, 8);
  }
  return false;
}

const FormatName& format_of(const Array& array) {
  for (const FormatName& format : kFormats) {
    if (holds(array, format.format)) return format;
  }
  array.refuse("bfloat16, uint16 (bfloat16 bits), float16, float32 or uint8 (raw)");
}

// Bytes from one row to the next: the last axis is whole, and the others follow from one stride.
std::size_t row_stride(const Array& array, std::size_t item_bytes) {
  const Shape& shape = array.shape();
  const auto strides = array.strides();
  const std::size_t last = shape.size() - 1;
  if (array.size() == 0 || last == 0) return 0;
  bool regular = shape[last] == 1 || strides[last] == 1;
  std::int64_t stride = 0;
  for (std::size_t i = last; i-- > 0;) {  // from the innermost row axis outwards
    if (shape[i] == 1) continue;
    if (stride == 0) stride = strides[i];
    std::int64_t expected = stride;
    for (std::size_t inner = i + 1; inner < last; ++inner) {
      expected *= static_cast<std::int64_t>(shape[inner]);
    }
    regular = regular && strides[i] == expected;
  }
  if (!regular || stride < 0) array.refuse("whole rows at one positive stride");
  return static_cast<std::size_t>(stride) * item_bytes;
}

}  // namespace

RowsOut rows_out(nb::handle out, nb::handle dtype, const Shape& lead,
                 const std::function<std::size_t(OutputFormat)>& row_bytes) {
  RowsOut result;
  const FormatName* format = dtype.is_none() ? nullptr : &format_by_name(dtype);
  if (!out.is_none()) {
    result.array = nb::borrow(out);
    result.borrowed = Array::output(out, "out");
    if (format == nullptr) format = &format_of(*result.borrowed);
  }
  if (format == nullptr) format = kFormats.data();
  const std::size_t bytes = row_bytes(format->format);
  Shape shape = lead;
  shape.push_back(bytes / format->item_bytes);
  if (out.is_none()) {
    result.array = empty(shape, format->numpy_dtype);
    result.borrowed = Array::output(result.array, "out");
  }
  const Array& array = *result.borrowed;
  if (!holds(array, format->format) || array.shape() != shape) {
    array.refuse(std::string(format->numpy_dtype) +
                 (format->format == OutputFormat::bf16 ? " or bfloat16 " : " ") +
                 shape_text(shape));
  }
  const std::size_t stride = row_stride(array, format->item_bytes);
  const std::size_t rows = count_of(lead);
  const std::size_t room = rows == 0 ? 0 : stride == 0 ? rows * bytes : (rows - 1) * stride + bytes;
  result.output = {format->format, {array.data(), room}, stride};
  return result;
}

}  // namespace engram::python
