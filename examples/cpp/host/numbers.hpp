// The arithmetic of the decoder: matrices, roundings, norms and the three quantisers of its caches.
//
// Every activation is a float that holds a bfloat16 value; sums are made in float, from left to
// right. No speed is wanted here. Formulas and their order are those of the released reference
// (inference/model.py); compile without -ffast-math, since a division by a scale is not a product
// with its reciprocal.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace host {

using Vector = std::vector<float>;

// Row-major. A weight is [out, in].
struct Matrix {
  std::size_t columns = 0;
  Vector values;

  Matrix() = default;
  Matrix(std::size_t rows, std::size_t column_count)
      : columns(column_count), values(rows * column_count) {}
  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  std::span<const float> row(std::size_t i) const {
    return std::span(values).subspan(i * columns, columns);
  }
  std::span<float> row(std::size_t i) { return std::span(values).subspan(i * columns, columns); }
  // Adds rows at the end; an empty matrix takes their width.
  void append(std::span<const float> rows, std::size_t width);
  // Forgets rows from `count` on.
  void truncate(std::size_t count);
};

// Nearest even.
float bfloat16(float value);
// Nearest even, largest magnitude 448 (E4M3) or 6 (E2M1).
float e4m3(float value);
float e2m1(float value);
// The power of two at or above a positive normal number.
float power_of_two_above(float value);

float dot(std::span<const float> a, std::span<const float> b);
// x [n, in], weight [out, in] -> [n, out], in float; `linear` rounds it to bfloat16.
Matrix product(const Matrix& x, const Matrix& weight);
Matrix linear(const Matrix& x, const Matrix& weight);
// bf16(weight * x / sqrt(mean(x^2) + eps)) of every row.
Matrix rms_norm(const Matrix& x, const Vector& weight, float eps);

// What a cache stores and gives back, in place:
// window rows, groups of 32: E4M3 times a power of two;
void through_fp8(std::span<float> x);
// index queries and keys, groups of 32: E2M1 times a power of two;
void through_mxfp4(std::span<float> x);
// compressed rows, groups of 16: E2M1 times an E4M3 number.
void through_nvfp4(std::span<float> x);

// Rotates the last 2 * frequencies.size() elements, adjacent ones in pairs, by position *
// frequency; `direction` -1 undoes it.
void rotate(std::span<float> x, const Vector& frequencies, std::size_t position,
            float direction = 1);

}  // namespace host
