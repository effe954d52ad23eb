// Products of a weight matrix with a few token vectors, weights read once and in order.
#include "simd/projection.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/bfloat16.hpp"
#include "simd/fp8.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/projection.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace engram::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<Floats>;

// E4M3FN widened to binary16 by moving its bits: s eeee mmm -> s 0eeee mmm0000000. Both have the
// same fraction layout, so the value is exactly code * 2^(7 - 15), subnormals included; the missing
// 2^8 is folded into the tile scale.
struct Fp8Weights {
  using Element = std::uint8_t;
  static HWY_INLINE FloatVec widen(const std::uint8_t* HWY_RESTRICT at) {
    const Floats df;
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(df, std::bit_cast<float>(fp8_value_bits(*at, 127 - 8)));
#else
    const hn::Rebind<std::int16_t, Floats> di16;
    const hn::Rebind<std::int8_t, Floats> di8;
    const hn::Rebind<hwy::float16_t, Floats> df16;
    // Sign extension leaves a second sign in bit 14, where binary16 has its top exponent bit.
    const auto codes = hn::PromoteTo(di16, hn::LoadU(di8, reinterpret_cast<const int8_t*>(at)));
    const auto bits = hn::And(hn::ShiftLeft<7>(codes), hn::Set(di16, static_cast<int16_t>(0xBFFF)));
    return hn::PromoteTo(df, hn::BitCast(df16, bits));
#endif
  }
};

// bfloat16 is the upper half of a binary32.
struct Bfloat16Weights {
  using Element = std::uint16_t;
  static HWY_INLINE FloatVec widen(const std::uint16_t* HWY_RESTRICT at) {
    const Floats df;
    const hn::RebindToUnsigned<Floats> du32;
    const hn::Rebind<std::uint16_t, Floats> du16;
    return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du32, hn::LoadU(du16, at))));
  }
  static float widen_one(std::uint16_t weight) { return float_from_bfloat16(weight); }
};

struct FloatWeights {
  using Element = float;
  static HWY_INLINE FloatVec widen(const float* HWY_RESTRICT at) { return hn::LoadU(Floats(), at); }
  static float widen_one(float weight) { return weight; }
};

// kRows rows times kTokens tokens: one accumulator each, all columns in order. The rows that come
// next are prefetched: rows are shorter than the hardware's streams take to start.
template <typename Weights, std::size_t kRows, std::size_t kTokens>
HWY_INLINE void block(const Projection& p, const typename Weights::Element* HWY_RESTRICT weights,
                      std::size_t row, std::size_t token) {
  static_assert(kRows * kTokens <= 8, "accumulators stay in registers");
  const Floats df;
  const std::size_t step = 2 * hn::Lanes(df);
  const std::size_t whole = p.columns - p.columns % step;
  const float* HWY_RESTRICT x = p.x + token * p.columns;
  const auto* HWY_RESTRICT w = weights + row * p.columns;
  FloatVec sums[kRows][kTokens];
  for (auto& row_sums : sums) {
    for (auto& sum : row_sums) sum = hn::Zero(df);
  }
  for (std::size_t column = 0; column < whole; column += step) {
    FloatVec first[kTokens];
    FloatVec second[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
      first[t] = hn::LoadU(df, x + t * p.columns + column);
      second[t] = hn::LoadU(df, x + t * p.columns + column + hn::Lanes(df));
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto* at = w + r * p.columns + column;
      // To the second level only: a block of rows is larger than the first.
      __builtin_prefetch(at + kRows * p.columns, /*write=*/0, /*locality=*/1);
      const FloatVec left = Weights::widen(at);
      const FloatVec right = Weights::widen(at + hn::Lanes(df));
      for (std::size_t t = 0; t < kTokens; ++t) {
        sums[r][t] = hn::MulAdd(left, first[t], sums[r][t]);
        sums[r][t] = hn::MulAdd(right, second[t], sums[r][t]);
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      float sum = hn::GetLane(hn::SumOfLanes(df, sums[r][t]));
      if constexpr (sizeof(typename Weights::Element) != 1) {  // FP8 columns come in whole tiles
        for (std::size_t column = whole; column < p.columns; ++column) {
          const float weight = Weights::widen_one(w[r * p.columns + column]);
          sum = std::fma(weight, x[t * p.columns + column], sum);
        }
      }
      p.y[(token + t) * p.y_stride + row + r] = sum;
    }
  }
}

// Eight chains of additions hide their latency: eight rows of one token, or two rows of four.
template <typename Weights>
HWY_INLINE void all_blocks(const Projection& p, const typename Weights::Element* weights) {
  std::size_t token = 0;
  for (; token + 4 <= p.tokens; token += 4) {
    std::size_t row = 0;
    for (; row + 2 <= p.rows; row += 2) block<Weights, 2, 4>(p, weights, row, token);
    for (; row < p.rows; ++row) block<Weights, 1, 4>(p, weights, row, token);
  }
  for (; token < p.tokens; ++token) {
    std::size_t row = 0;
    for (; row + 8 <= p.rows; row += 8) block<Weights, 8, 1>(p, weights, row, token);
    for (; row < p.rows; ++row) block<Weights, 1, 1>(p, weights, row, token);
  }
}

void project_fp8(const Projection& p, const std::uint8_t* weights, const std::uint8_t* scales,
                 float* scaled_x) {
  const Floats df;
  for (std::size_t token = 0; token < p.tokens; ++token) {
    for (std::size_t column = 0; column < p.columns; column += kFp8Group) {
      // 2^(scale - 127) of the tile, and 2^8 for the widening; exact.
      const auto exponent = static_cast<std::uint32_t>(scales[column / kFp8Group]) + 8;
      const auto factor = hn::Set(df, std::bit_cast<float>(exponent << 23));
      const std::size_t first = token * p.columns + column;
      for (std::size_t i = first; i < first + kFp8Group; i += hn::Lanes(df)) {
        hn::StoreU(hn::Mul(hn::LoadU(df, p.x + i), factor), df, scaled_x + i);
      }
    }
  }
  Projection scaled = p;
  scaled.x = scaled_x;
  all_blocks<Fp8Weights>(scaled, weights);
}

void project_bfloat16(const Projection& p, const std::uint16_t* weights) {
  all_blocks<Bfloat16Weights>(p, weights);
}

void project_float(const Projection& p, const float* weights) {
  all_blocks<FloatWeights>(p, weights);
}

}  // namespace engram::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace engram::simd {

HWY_EXPORT(project_fp8);
HWY_EXPORT(project_bfloat16);
HWY_EXPORT(project_float);

void project_fp8(const Projection& p, const std::uint8_t* weights, const std::uint8_t* scales,
                 float* scaled_x) {
  HWY_DYNAMIC_DISPATCH(project_fp8)(p, weights, scales, scaled_x);
}

void project_bfloat16(const Projection& p, const std::uint16_t* weights) {
  HWY_DYNAMIC_DISPATCH(project_bfloat16)(p, weights);
}

void project_float(const Projection& p, const float* weights) {
  HWY_DYNAMIC_DISPATCH(project_float)(p, weights);
}

namespace {

template <typename Weight>
void project_scalar(const Projection& p, const Weight& weight) {
  for (std::size_t token = 0; token < p.tokens; ++token) {
    for (std::size_t row = 0; row < p.rows; ++row) {
      double sum = 0;
      for (std::size_t column = 0; column < p.columns; ++column) {
        sum += static_cast<double>(weight(row, column)) * p.x[token * p.columns + column];
      }
      p.y[token * p.y_stride + row] = static_cast<float>(sum);
    }
  }
}

}  // namespace

void project_fp8_scalar(const Projection& p, const std::uint8_t* weights,
                        const std::uint8_t* scales) {
  project_scalar(p, [&](std::size_t row, std::size_t column) {
    return std::bit_cast<float>(
        fp8_value_bits(weights[row * p.columns + column], scales[column / kFp8Group]));
  });
}

void project_bfloat16_scalar(const Projection& p, const std::uint16_t* weights) {
  project_scalar(p, [&](std::size_t row, std::size_t column) {
    return float_from_bfloat16(weights[row * p.columns + column]);
  });
}

void project_float_scalar(const Projection& p, const float* weights) {
  project_scalar(
      p, [&](std::size_t row, std::size_t column) { return weights[row * p.columns + column]; });
}

}  // namespace engram::simd
#endif
