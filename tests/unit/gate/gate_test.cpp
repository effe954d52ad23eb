// The gate against binary64, its edge cases, and the same bits for any split.
#include "engram/gate.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/bfloat16.hpp"
#include "gate/gate_value.hpp"
#include "simd/fp8.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/random.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;

TEST(GateValue, HasItsThresholdAndItsSign) {
  EXPECT_NEAR(gate_value(0.0f), 0.50025f, 1e-6);
  EXPECT_NEAR(gate_value(-0.0f), 0.49975f, 1e-6);  // by sign bit, as the reference
  EXPECT_NEAR(gate_value(-1e-12f), 0.49975f, 1e-6);
  EXPECT_NEAR(gate_value(4.0f), 0.880797f, 1e-6);  // without the square root: 0.982014
  EXPECT_NEAR(gate_value(-4.0f), 1 - 0.880797f, 1e-6);
  EXPECT_TRUE(std::isnan(gate_value(NAN)));
}

// Random weights, rows and stream of a given shape, and the formula in binary64.
class Case {
 public:
  Case(GateShape with, std::size_t with_tokens, bool fp8) : shape(with), tokens(with_tokens) {
    test::Random random(shape.hidden_dim * 100 + tokens);
    const std::size_t elements = shape.wkv_rows() * shape.embedding_dim;
    const std::size_t tile_columns = shape.embedding_dim / 32;
    if (fp8) scales.resize((shape.wkv_rows() + 31) / 32 * tile_columns);
    for (auto& scale : scales) scale = static_cast<std::byte>(110 + random.below(8));
    for (std::size_t i = 0; i < elements; ++i) {
      if (fp8) {
        auto code = static_cast<std::uint8_t>(random.next());
        if ((code & 0x7F) == 0x7F) code ^= 1;
        wkv.push_back(static_cast<std::byte>(code));
        const std::size_t row = i / shape.embedding_dim;
        const std::size_t column = i % shape.embedding_dim;
        const auto scale = static_cast<std::uint8_t>(scales[row / 32 * tile_columns + column / 32]);
        weights.push_back(std::bit_cast<float>(simd::fp8_value_bits(code, scale)));
      } else {
        weights.push_back(add_bfloat16(wkv, random.symmetric()));
      }
    }
    for (std::size_t i = 0; i < shape.copies * shape.hidden_dim; ++i) {
      q_values.push_back(add_bfloat16(q, 1 + random.symmetric() / 4));
      k_values.push_back(add_bfloat16(k, 1 + random.symmetric() / 4));
    }
    for (std::size_t i = 0; i < tokens * shape.embedding_dim; ++i) {
      embedding.push_back(bfloat16_from_float(random.symmetric()));
    }
    for (std::size_t i = 0; i < tokens * shape.copies * shape.hidden_dim; ++i) {
      hidden.push_back(random.symmetric() * 2);
    }
  }

  Result<Gate> gate(double eps = 1e-20) const {
    return Gate::create(shape, {wkv, scales, q, k}, eps, 2);
  }

  // kv of one token; rounded to bfloat16 where the reference rounds.
  std::vector<double> project(std::size_t token, Rounding rounding) const {
    std::vector<double> kv(shape.wkv_rows());
    for (std::size_t row = 0; row < kv.size(); ++row) {
      double sum = 0;
      for (std::size_t i = 0; i < shape.embedding_dim; ++i) {
        sum += static_cast<double>(weights[row * shape.embedding_dim + i]) *
               float_from_bfloat16(embedding[token * shape.embedding_dim + i]);
      }
      kv[row] = rounding == Rounding::none
                    ? sum
                    : float_from_bfloat16(bfloat16_from_float(static_cast<float>(sum)));
    }
    return kv;
  }

  std::vector<double> expected(Rounding rounding, double eps = 1e-20) const {
    std::vector<double> out;
    const std::size_t dim = shape.hidden_dim;
    for (std::size_t token = 0; token < tokens; ++token) {
      const auto kv = project(token, rounding);
      for (std::size_t copy = 0; copy < shape.copies; ++copy) {
        const float* h = hidden.data() + (token * shape.copies + copy) * dim;
        const double* key = kv.data() + copy * dim;
        double hh = 0, kk = 0, dot = 0;
        for (std::size_t i = 0; i < dim; ++i) {
          hh += static_cast<double>(h[i]) * h[i];
          kk += key[i] * key[i];
          dot += h[i] * key[i] * static_cast<double>(q_values[copy * dim + i]) *
                 k_values[copy * dim + i];
        }
        const double n = static_cast<double>(dim);
        dot *= 1 / std::sqrt(hh / n + eps) / std::sqrt(kk / n + eps) / std::sqrt(n);
        const double gate =
            1 / (1 + std::exp(-std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6)), dot)));
        for (std::size_t i = 0; i < dim; ++i) {
          out.push_back(h[i] + gate * kv[shape.copies * dim + i]);
        }
      }
    }
    return out;
  }

  static float add_bfloat16(std::vector<std::byte>& bytes, float value) {
    const std::uint16_t bits = bfloat16_from_float(value);
    bytes.push_back(static_cast<std::byte>(bits));
    bytes.push_back(static_cast<std::byte>(bits >> 8));
    return float_from_bfloat16(bits);
  }

  GateShape shape;
  std::size_t tokens;
  std::vector<std::byte> wkv, scales, q, k;
  std::vector<float> weights, q_values, k_values, hidden;
  std::vector<std::uint16_t> embedding;
};

TEST(Gate, MatchesTheFormulaForAnyShape) {
  for (const bool fp8 : {true, false}) {
    for (const auto& [copies, dim, inputs, tokens] :
         {std::tuple{4, 48, 192, 3}, {1, 32, 64, 40}, {3, 7, 96, 5}, {2, 100, 32, 1}}) {
      const Case c({static_cast<std::size_t>(copies), static_cast<std::size_t>(dim),
                    static_cast<std::size_t>(inputs)},
                   static_cast<std::size_t>(tokens), fp8);
      const auto gate = c.gate();
      ASSERT_TRUE(is_ok(gate));
      std::vector<float> out(c.hidden.size());
      GateWorkspace workspace;
      ASSERT_TRUE(
          is_ok(gate->apply({c.embedding, c.hidden, {}, Rounding::none}, out, {}, workspace)));
      const auto expected = c.expected(Rounding::none);
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], expected[i], 2e-4 * (1 + std::fabs(expected[i]))) << i;
      }
    }
  }
}

TEST(Gate, RoundsWhereTheReferenceRounds) {
  const Case c({4, 48, 192}, 6, true);
  const auto gate = c.gate();
  ASSERT_TRUE(is_ok(gate));
  std::vector<float> out(c.hidden.size());
  GateWorkspace workspace;
  ASSERT_TRUE(
      is_ok(gate->apply({c.embedding, c.hidden, {}, Rounding::reference}, out, {}, workspace)));
  const auto expected = c.expected(Rounding::reference);
  std::size_t different = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint16_t bits = bfloat16_from_float(out[i]);
    EXPECT_EQ(float_from_bfloat16(bits), out[i]);
    const std::uint16_t want = bfloat16_from_float(static_cast<float>(expected[i]));
    different += bits != want;
    EXPECT_LE(std::abs(bits - want), 1) << i;  // one unit in the last place: order of sums
  }
  EXPECT_LT(different, out.size() / 50);
}

TEST(Gate, UsesTheEpsilonItIsGiven) {
  Case c({1, 32, 32}, 1, false);
  for (float& h : c.hidden) h *= 1e-4f;  // mean(h^2) is about 1e-8: 1e-6 would swamp it
  GateWorkspace workspace;
  std::vector<float> gates(1);
  std::vector<float> out(32);
  const auto value_with = [&](double eps) {
    const auto gate = c.gate(eps);
    EXPECT_TRUE(is_ok(gate));
    EXPECT_TRUE(
        is_ok(gate->apply({c.embedding, c.hidden, {}, Rounding::none}, out, gates, workspace)));
    return gates[0];
  };
  EXPECT_GT(std::fabs(value_with(1e-20) - value_with(1e-6)), 0.01f);
}

TEST(Gate, LeavesMaskedTokensAloneToTheBit) {
  Case c({2, 16, 32}, 3, true);
  c.hidden[32 + 5] = NAN;
  c.hidden[32 + 6] = 1.0000001f;  // not a bfloat16
  const auto gate = c.gate();
  ASSERT_TRUE(is_ok(gate));
  const std::vector<std::uint8_t> mask = {1, 0, 1};
  std::vector<float> out(c.hidden.size(), -7.0f);
  std::vector<float> gates(6, -7.0f);
  GateWorkspace workspace;
  ASSERT_TRUE(is_ok(
      gate->apply({c.embedding, c.hidden, mask, Rounding::reference}, out, gates, workspace)));
  EXPECT_EQ(std::memcmp(out.data() + 32, c.hidden.data() + 32, 32 * sizeof(float)), 0);
  EXPECT_NE(out[0], c.hidden[0]);
  EXPECT_EQ(gates[2], 0.0f);
  EXPECT_GT(gates[4], 0.0f);
  // In place too.
  std::vector<float> in_place = c.hidden;
  ASSERT_TRUE(is_ok(
      gate->apply({c.embedding, in_place, mask, Rounding::reference}, in_place, {}, workspace)));
  EXPECT_EQ(std::memcmp(in_place.data(), out.data(), out.size() * sizeof(float)), 0);
}

TEST(Gate, GivesTheSameBitsForAnySplitAndThreads) {
  const Case c({2, 48, 96}, 70, true);
  const auto gate = c.gate();
  ASSERT_TRUE(is_ok(gate));
  GateWorkspace workspace;
  std::vector<float> whole(c.hidden.size());
  ASSERT_TRUE(
      is_ok(gate->apply({c.embedding, c.hidden, {}, Rounding::none}, whole, {}, workspace)));
  const std::size_t stream = 2 * 48;
  for (const std::size_t step : {1, 3, 33}) {
    for (const int threads : {1, 3}) {
      std::vector<float> split(c.hidden.size());
      for (std::size_t first = 0; first < c.tokens; first += step) {
        const std::size_t count = std::min(step, c.tokens - first);
        const GateInput input{std::span(c.embedding).subspan(first * 96, count * 96),
                              std::span(c.hidden).subspan(first * stream, count * stream),
                              {},
                              Rounding::none};
        ASSERT_TRUE(
            is_ok(gate->apply(input, std::span(split).subspan(first * stream, count * stream), {},
                              workspace, threads)));
      }
      ASSERT_EQ(split, whole) << step << " tokens, " << threads << " threads";
    }
  }
}

TEST(Gate, RefusesWeightsThatAreNotNumbers) {
  const auto refused = [](auto change, Code code, const std::string& words) {
    Case c({2, 16, 32}, 1, true);
    change(c);
    EXPECT_TRUE(fails(c.gate(), code, words));
  };
  refused([](Case& c) { c.wkv[77] = std::byte{0xFF}; }, Code::corrupt, "wkv: element 77 is NaN");
  refused([](Case& c) { c.scales[1] = std::byte{0xFF}; }, Code::corrupt, "tile 1");
  refused([](Case& c) { c.scales[0] = std::byte{3}; }, Code::unsupported,
          "expected a byte in 64..190");
  refused([](Case& c) { c.q[3] = std::byte{0x7F}, c.q[2] = std::byte{0xC0}; }, Code::corrupt,
          "q_weight: element 1");
  refused([](Case& c) { c.k.pop_back(); }, Code::corrupt, "k_weight: expected 64 bytes, found 63");
  refused([](Case& c) { c.wkv.pop_back(); }, Code::corrupt, "wkv: expected 1536 bytes");
  refused([](Case& c) { c.scales.pop_back(); }, Code::corrupt, "wkv scale: expected 2 bytes");
  refused([](Case& c) { c.shape.copies = 0; }, Code::invalid_argument, "a dimension is 0");
}

TEST(Gate, RefusesInputsOfTheWrongSize) {
  const Case c({2, 16, 32}, 2, true);
  const auto gate = c.gate();
  ASSERT_TRUE(is_ok(gate));
  GateWorkspace workspace;
  std::vector<float> out(c.hidden.size());
  const std::vector<std::uint8_t> mask(3, 1);
  const auto embedding = std::span(c.embedding);
  const auto run = [&](GateInput input) { return gate->apply(input, out, {}, workspace); };
  EXPECT_TRUE(fails(run({embedding.first(63), c.hidden, {}, Rounding::none}),
                    Code::invalid_argument, "expected embedding T x 32"));
  EXPECT_TRUE(fails(run({embedding, std::span(c.hidden).first(63), {}, Rounding::none}),
                    Code::invalid_argument, "hidden"));
  EXPECT_TRUE(
      fails(run({embedding, c.hidden, mask, Rounding::none}), Code::invalid_argument, "mask"));
}

}  // namespace
}  // namespace engram
