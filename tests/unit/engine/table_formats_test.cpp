// Every table format from the bytes of a file to values, and every declaration that must be made.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "engram/engine.hpp"

#include "base/bfloat16.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tiny_model.hpp"

namespace engram {
namespace {

using test::fails;
using test::is_ok;
using test::Tensor;
using test::TinyModel;

constexpr std::size_t kDim = 64;
constexpr std::uint64_t kRows[2] = {660, 864};

void append(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Tables whose bytes and values are made here, independently of the library's codecs.
class TableFormats : public ::testing::Test {
 protected:
  // Values of one table, filled while its bytes are made.
  std::vector<float> values_[2];

  // `make(random, values)` gives the bytes of one row of each part and appends its values.
  struct Row {
    std::string codes, scales, biases;
  };
  struct Dtypes {
    std::string codes, scales, biases;  // empty: no such tensor
    std::uint64_t width;                // columns of the codes tensor
    std::uint64_t groups = 0;
    std::string scale_name = "scale";
  };

  template <typename MakeRow>
  void make(const Dtypes& dtypes, MakeRow make_row) {
    model_ = TinyModel();
    model_.config["engram_head_dim"] = "64";
    for (std::size_t table = 0; table < 2; ++table) {
      test::Random random(table + 1);
      Row all;
      values_[table].clear();
      for (std::uint64_t row = 0; row < kRows[table]; ++row) {
        const Row one = make_row(random, values_[table]);
        all.codes += one.codes;
        all.scales += one.scales;
        all.biases += one.biases;
      }
      const std::string prefix = table == 0 ? "layers.1.engram.embed." : "layers.14.engram.embed.";
      auto& shard = model_.shards[table];
      shard = {{prefix + "weight", dtypes.codes, {kRows[table], dtypes.width}, all.codes}};
      if (!dtypes.scales.empty()) {
        shard.push_back(
            {prefix + dtypes.scale_name, dtypes.scales, {kRows[table], dtypes.groups}, all.scales});
      }
      if (!dtypes.biases.empty()) {
        shard.push_back(
            {prefix + "biases", dtypes.biases, {kRows[table], dtypes.groups}, all.biases});
      }
    }
  }

  Result<Engine> open(EngineOptions options = {}) {
    options.load = Load::rows;
    model_.write(folder_);
    return Engine::open(folder_.path(), options);
  }

  // Every row of both tables, from both tiers and in both number formats.
  void expect_values(RowFormat format, EngineOptions options = {}) {
    for (const Tier tier : {Tier::mmap, Tier::ram, Tier::direct}) {
      options.store.tier = tier;
      const auto engine = open(options);
      ASSERT_TRUE(is_ok(engine));
      for (std::size_t table = 0; table < 2; ++table) {
        EXPECT_EQ(engine->checkpoint().tables()[table].layout.format, format);
        std::vector<RowId> rows(kRows[table]);
        for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<RowId>(i);
        std::vector<float> wide(rows.size() * kDim);
        std::vector<std::uint16_t> narrow(rows.size() * kDim);
        LookupWorkspace workspace;
        ASSERT_TRUE(is_ok(engine->memory()->lookup_rows(
            static_cast<int>(table), rows,
            {OutputFormat::f32, std::as_writable_bytes(std::span(wide)), 0}, workspace)));
        ASSERT_TRUE(is_ok(engine->memory()->lookup_rows(
            static_cast<int>(table), rows,
            {OutputFormat::bf16, std::as_writable_bytes(std::span(narrow)), 0}, workspace)));
        for (std::size_t i = 0; i < wide.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]),
                    std::bit_cast<std::uint32_t>(values_[table][i]))
              << "element " << i;
          ASSERT_EQ(narrow[i], bfloat16_from_float(values_[table][i])) << "element " << i;
        }
      }
    }
  }

  // A row of 4-bit codes, the even column in the low nibble, and one scale of `scale_bytes` per 32.
  template <typename Value>
  static Row nibble_row(test::Random& random, std::vector<float>& values, auto make_scale,
                        Value value) {
    Row row;
    std::vector<float> scales;
    for (std::size_t group = 0; group < kDim / 32; ++group) {
      scales.push_back(make_scale(random, row.scales));
    }
    for (std::size_t i = 0; i < kDim; i += 2) {
      const auto byte = static_cast<std::uint8_t>(random.next());
      row.codes += static_cast<char>(byte);
      values.push_back(value(byte & 15) * scales[i / 32]);
      values.push_back(value(byte >> 4) * scales[i / 32]);
    }
    return row;
  }

  static float e8m0_scale(test::Random& random, std::string& bytes) {
    const auto byte = static_cast<std::uint8_t>(118 + random.below(12));
    bytes += static_cast<char>(byte);
    return std::ldexp(1.0f, byte - 127);
  }

  static float e2m1(int code) {
    constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return code < 8 ? kValues[code] : -kValues[code - 8];
  }
  static float int4(int code) { return static_cast<float>(code < 8 ? code : code - 16); }

  void make_mxfp4(const std::string& dtype, const std::string& scale_dtype) {
    make({dtype, scale_dtype, "", kDim / 2, kDim / 32}, [](test::Random& random, auto& values) {
      return nibble_row(random, values, e8m0_scale, e2m1);
    });
  }

  test::TemporaryDirectory folder_;
  TinyModel model_;
};

TEST_F(TableFormats, ServeHalfAndSinglePrecision) {
  make({"F16", "", "", kDim}, [](test::Random& random, auto& values) {
    Row row;
    for (std::size_t i = 0; i < kDim; ++i) {
      const int fraction = static_cast<int>(random.below(1024));
      const int exponent = static_cast<int>(random.below(31));
      append(row.codes, static_cast<std::uint16_t>(exponent << 10 | fraction));
      values.push_back(exponent == 0
                           ? std::ldexp(static_cast<float>(fraction), -24)
                           : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25));
    }
    return row;
  });
  expect_values(RowFormat::f16);
  make({"F32", "", "", kDim}, [](test::Random& random, auto& values) {
    Row row;
    for (std::size_t i = 0; i < kDim; ++i) {
      values.push_back(random.symmetric());
      append(row.codes, values.back());
    }
    return row;
  });
  expect_values(RowFormat::f32);
}

TEST_F(TableFormats, ServeInt8WithFloatScales) {
  make({"I8", "F32", "", kDim, kDim / 32}, [](test::Random& random, auto& values) {
    Row row;
    for (std::size_t i = 0; i < kDim; ++i) {
      const auto code = static_cast<std::int8_t>(random.next());
      row.codes += static_cast<char>(code);
      if (i % 32 == 0) append(row.scales, 0.01f + std::fabs(random.symmetric()));
      float scale;
      std::memcpy(&scale, row.scales.data() + i / 32 * 4, 4);
      values.push_back(static_cast<float>(code) * scale);
    }
    return row;
  });
  expect_values(RowFormat::int8_f32);
}

TEST_F(TableFormats, ServeMlxWordsOfFp8) {
  make({"U32", "U8", "", kDim / 4, kDim / 32, "scales"}, [](test::Random& random, auto& values) {
    Row row;
    float scale = 0;
    for (std::size_t i = 0; i < kDim; ++i) {
      if (i % 32 == 0) scale = e8m0_scale(random, row.scales);
      // Normal codes only; the subnormal ones have tests of their own.
      const int exponent = 1 + static_cast<int>(random.below(14));
      const int mantissa = static_cast<int>(random.below(8));
      row.codes += static_cast<char>(exponent << 3 | mantissa);
      values.push_back(std::ldexp(static_cast<float>(8 + mantissa), exponent - 10) * scale);
    }
    return row;
  });
  expect_values(RowFormat::fp8_e4m3_e8m0);
}

TEST_F(TableFormats, ServeMxfp4OnceItIsDeclared) {
  for (const std::string dtype : {"U8", "I8"}) {
    make_mxfp4(dtype, "F8_E8M0");
    EXPECT_TRUE(fails(open(), Code::unsupported,
                      "fits mxfp4, int4-e8m0 and nothing declares which; name it with --codec"));
    expect_values(RowFormat::mxfp4, {.checkpoint = {.declared_format = RowFormat::mxfp4}});
    for (const std::string declared :
         {R"({"engram_embed_quant":"mxfp4","engram_embed_block_size":32})",
          R"({"engram_dtype":"fp4"})"}) {
      model_.config["quantization_config"] = declared;
      expect_values(RowFormat::mxfp4);
    }
  }
  // MLX spells the same bytes as words, which no other format does.
  make({"U32", "U8", "", kDim / 8, kDim / 32, "scales"}, [](test::Random& random, auto& values) {
    return nibble_row(random, values, e8m0_scale, e2m1);
  });
  expect_values(RowFormat::mxfp4);
}

TEST_F(TableFormats, ServeInt4UnderItsThreeScales) {
  make({"U8", "F8_E8M0", "", kDim / 2, kDim / 32}, [](test::Random& random, auto& values) {
    return nibble_row(random, values, e8m0_scale, int4);
  });
  expect_values(RowFormat::int4_e8m0, {.checkpoint = {.declared_format = RowFormat::int4_e8m0}});
  const auto e4m3_scale = [](test::Random& random, std::string& bytes) {
    const int exponent = 1 + static_cast<int>(random.below(14));
    bytes += static_cast<char>(exponent << 3 | 5);
    return std::ldexp(13.0f, exponent - 10);
  };
  make({"U8", "F8_E4M3", "", kDim / 2, kDim / 32}, [&](test::Random& random, auto& values) {
    return nibble_row(random, values, e4m3_scale, [](int code) { return int4(code) / 8; });
  });
  expect_values(RowFormat::int4_e4m3);
  const auto half_scale = [](test::Random& random, std::string& bytes) {
    const int fraction = static_cast<int>(random.below(1024));
    append(bytes, static_cast<std::uint16_t>(10 << 10 | fraction));
    return std::ldexp(static_cast<float>(1024 + fraction), 10 - 25);
  };
  make({"U8", "F16", "", kDim / 2, kDim / 32}, [&](test::Random& random, auto& values) {
    return nibble_row(random, values, half_scale,
                      [](int code) { return static_cast<float>(code - 8); });
  });
  EXPECT_TRUE(fails(open(), Code::unsupported, "fits int4-f16 and nothing declares which"));
  expect_values(RowFormat::int4_f16, {.checkpoint = {.declared_format = RowFormat::int4_f16}});
}

TEST_F(TableFormats, ServeMlxAffineOfEveryWidth) {
  for (const int bits : {2, 3, 4, 6, 8}) {
    for (const std::size_t group : {std::size_t{32}, std::size_t{64}}) {
      for (const bool wide : {true, false}) {
        const std::string dtype = wide ? "F32" : "BF16";
        const auto words = kDim * static_cast<std::uint64_t>(bits) / 32;
        make({"U32", dtype, dtype, words, kDim / group, "scales"},
             [&](test::Random& random, auto& values) {
               Row row;
               const auto parameter = [&](std::string& bytes) {
                 const float value = random.symmetric();  // MLX scales can be negative
                 if (wide) {
                   append(bytes, value);
                   return value;
                 }
                 append(bytes, bfloat16_from_float(value));
                 return float_from_bfloat16(bfloat16_from_float(value));
               };
               std::vector<std::uint8_t> bit_string;
               float scale = 0;
               float bias = 0;
               for (std::size_t i = 0; i < kDim; ++i) {
                 if (i % group == 0) {
                   scale = parameter(row.scales);
                   bias = parameter(row.biases);
                 }
                 const auto code = static_cast<int>(random.below(1u << bits));
                 for (int b = 0; b < bits; ++b) {
                   bit_string.push_back(static_cast<std::uint8_t>(code >> b & 1));
                 }
                 const volatile float product = static_cast<float>(code) * scale;
                 values.push_back(product + bias);
               }
               for (std::size_t i = 0; i < bit_string.size(); i += 8) {
                 int byte = 0;
                 for (std::size_t b = 0; b < 8; ++b) byte |= bit_string[i + b] << b;
                 row.codes += static_cast<char>(byte);
               }
               return row;
             });
        expect_values(RowFormat::affine);
      }
    }
  }
}

TEST_F(TableFormats, MayDifferBetweenLayers) {
  make_mxfp4("U8", "F8_E8M0");
  const std::vector<Tensor> packed = model_.shards[1];
  make({"BF16", "", "", kDim}, [](test::Random& random, auto& values) {
    Row row;
    for (std::size_t i = 0; i < kDim; ++i) {
      append(row.codes, bfloat16_from_float(random.symmetric()));
      values.push_back(0);
    }
    return row;
  });
  model_.shards[1] = packed;
  const auto refused = open({.checkpoint = {.declared_format = RowFormat::mxfp4}});
  EXPECT_TRUE(fails(refused, Code::corrupt, "--codec declares mxfp4, but BF16"));
  // MLX words need no declaration, so each layer speaks for itself.
  model_.shards[1][0].dtype = "U32";
  model_.shards[1][0].shape[1] = kDim / 8;
  model_.shards[1][1].dtype = "U8";
  const auto engine = open();
  ASSERT_TRUE(is_ok(engine));
  EXPECT_EQ(engine->memory()->output_bytes(0, OutputFormat::raw), 2 * kDim);
  EXPECT_EQ(engine->memory()->output_bytes(1, OutputFormat::raw), kDim / 2 + kDim / 32);
  std::string raw(kDim / 2 + kDim / 32, '\0');
  LookupWorkspace workspace;
  ASSERT_TRUE(is_ok(engine->memory()->lookup_rows(
      1, std::vector<RowId>{863}, {OutputFormat::raw, std::as_writable_bytes(std::span(raw)), 0},
      workspace)));
  EXPECT_EQ(raw, packed[0].bytes.substr(863 * kDim / 2) + packed[1].bytes.substr(863 * kDim / 32));
}

TEST_F(TableFormats, RefuseDeclarationsThatTheTensorsDeny) {
  make_mxfp4("U8", "F8_E8M0");
  model_.config["quantization_config"] = R"({"engram_embed_quant":"fp8"})";
  EXPECT_TRUE(fails(open(), Code::corrupt, "config.json declares fp8"));
  model_.config["quantization_config"] = R"({"engram_embed_quant":"nf4"})";
  EXPECT_TRUE(fails(open(), Code::unsupported, "table codec 'nf4'"));
  // What the caller says comes first.
  EXPECT_TRUE(is_ok(open({.checkpoint = {.declared_format = RowFormat::mxfp4}})));
  EXPECT_TRUE(fails(open({.checkpoint = {.declared_format = RowFormat::bf16}}), Code::corrupt,
                    "--codec declares bf16"));
}

TEST_F(TableFormats, RefuseTensorsThatFitNoFormat) {
  make_mxfp4("U8", "F8_E8M0");
  const EngineOptions mxfp4{.checkpoint = {.declared_format = RowFormat::mxfp4}};
  model_.tensor("layers.1.engram.embed.scale").dtype = "I8";
  EXPECT_TRUE(fails(open(mxfp4), Code::unsupported, "no known table format has dtype U8"));
  make_mxfp4("U8", "F8_E8M0");
  std::erase_if(model_.shards[0], [](const Tensor& t) { return t.name.ends_with("scale"); });
  EXPECT_TRUE(fails(open(mxfp4), Code::unsupported, "with scale none"));
  make_mxfp4("U8", "F8_E8M0");
  Tensor& scale = model_.tensor("layers.1.engram.embed.scale");
  scale.shape = {660, 1};
  scale.bytes.resize(660);
  EXPECT_TRUE(fails(open(mxfp4), Code::corrupt, "expected shape [660, 2], found [660, 1]"));
  // A bfloat16 table beside a scale: one of the two is not what it seems.
  model_ = TinyModel();
  Tensor& weight = model_.tensor("layers.1.engram.embed.weight");
  weight.dtype = "BF16";
  weight.bytes += weight.bytes;
  EXPECT_TRUE(fails(open(), Code::unsupported, "dtype BF16 [660, 32] with scale F8_E8M0"));
}

}  // namespace
}  // namespace engram
