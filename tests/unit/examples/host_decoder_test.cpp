// The example's decoder against numbers of the official reference, and its ways of going on against
// one prefill.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/json.hpp"
#include "examples/cpp/host/decoder.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary.hpp"

namespace engram::test {
namespace {

using Captures = std::map<std::string, std::vector<double>>;

JsonElement golden_run() {
  static const auto document =
      JsonDocument::parse(read_file(test_data("golden/decoder.json")), "decoder");
  EXPECT_TRUE(document) << document.error().message;
  return document->root();
}

std::vector<double> numbers(JsonElement array) {
  std::vector<double> result;
  for (const JsonElement value : JsonArray(array.get_array().value_unsafe())) {
    result.push_back(value.get_double().value_unsafe());
  }
  return result;
}

class HostDecoder : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(is_ok(host::write_engram_model(shape_, directory_.path())));
    auto engine = Engine::open(directory_.path());
    ASSERT_TRUE(is_ok(engine));
    engine_ = std::make_unique<Engine>(*std::move(engine));
  }

  host::Decoder decoder(host::Options options) const {
    return {weights_, shape_, *engine_, options};
  }

  // Token ids by the rule of the published run.
  std::vector<TokenId> tokens(std::size_t count) const {
    std::vector<TokenId> result;
    for (std::size_t t = 0; t < count; ++t) {
      result.push_back(static_cast<TokenId>(host::raw_number("input_ids", t) % shape_.vocab_size));
    }
    return result;
  }

  TemporaryDirectory directory_;
  host::Shape shape_;
  host::Weights weights_ = host::make_weights(shape_);
  std::unique_ptr<Engine> engine_;
};

// Sum of (i + 1) * value[i], and of its absolute terms.
std::pair<double, double> checksum(const std::vector<double>& values) {
  double sum = 0;
  double scale = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(i + 1) * values[i];
    scale += static_cast<double>(i + 1) * std::fabs(values[i]);
  }
  return {sum, scale};
}

bool is_integer(const std::string& name) {
  for (const char* kind : {"ids", "hashes", "idxs", "indices", "candidates"}) {
    if (name.find(kind) != std::string::npos) return true;
  }
  return false;
}

// Within 5e-6 of the largest listed value, and the checksum within 1e-6 of its terms; whole numbers
// exactly.
void expect_capture(const std::string& name, JsonElement expected,
                    const std::vector<double>& found) {
  SCOPED_TRACE(name);
  ASSERT_EQ(found.size(), at(expected, {"n"}).get_uint64().value_unsafe());
  const auto stride = at(expected, {"stride"}).get_uint64().value_unsafe();
  const std::vector<double> listed = numbers(at(expected, {"data"}));
  double largest = 0;
  for (const double value : listed) largest = std::max(largest, std::fabs(value));
  const double tolerance = is_integer(name) ? 0 : 5e-6 * largest;
  for (std::size_t j = 0; j < listed.size(); ++j) {
    EXPECT_NEAR(found[j * stride], listed[j], tolerance) << "element " << j * stride;
  }
  const auto [sum, scale] = checksum(found);
  EXPECT_NEAR(sum, at(expected, {"ck"}).get_double().value_unsafe(), 1e-6 * scale);
}

TEST_F(HostDecoder, WeightsFollowTheirRule) {
  std::size_t compared = 0;
  for (const auto field : JsonObject(at(golden_run(), {"weights"}).get_object().value_unsafe())) {
    std::vector<std::size_t> shape;
    for (const double dim : numbers(at(field.value, {"shape"}))) {
      shape.push_back(static_cast<std::size_t>(dim));
    }
    const host::Vector values = host::tensor_values(std::string(field.key), shape);
    const auto [sum, scale] = checksum({values.begin(), values.end()});
    EXPECT_NEAR(sum, at(field.value, {"ck"}).get_double().value_unsafe(), 1e-12 * scale)
        << field.key;
    ++compared;
  }
  EXPECT_EQ(compared, 51);
}

// Runs one step and keeps it; what was observed goes to `captures`.
Captures run(host::Decoder& decoder, const std::vector<TokenId>& step) {
  Captures captures;
  decoder.observe(
      [&](const std::string& name, const std::vector<double>& values) { captures[name] = values; });
  EXPECT_TRUE(is_ok(decoder.forward(step)));
  EXPECT_TRUE(is_ok(decoder.accept(step.size())));
  decoder.observe({});
  captures["input_ids"] = {step.begin(), step.end()};
  auto& hashes = captures["engram_hashes"];  // [tokens, layers, columns]
  for (std::size_t t = 0; t < step.size(); ++t) {
    for (const char* layer : {"L1.engram_hash_ids", "L4.engram_hash_ids"}) {
      const auto rows = captures[layer].begin() + static_cast<std::ptrdiff_t>(6 * t);
      hashes.insert(hashes.end(), rows, rows + 6);
    }
  }
  return captures;
}

TEST_F(HostDecoder, ReproducesEveryPublishedCapture) {
  host::Decoder decoder = this->decoder({});
  const std::vector<TokenId> ids = tokens(14);
  std::size_t compared = 0;
  for (const auto& [regime, begin, end] :
       {std::tuple{"prefill12", 0, 12}, {"decode12", 12, 13}, {"decode13", 13, 14}}) {
    SCOPED_TRACE(regime);
    const Captures captures = run(decoder, {ids.begin() + begin, ids.begin() + end});
    for (const auto field :
         JsonObject(at(golden_run(), {"regimes", regime}).get_object().value_unsafe())) {
      const std::string name(field.key);
      ASSERT_TRUE(captures.contains(name)) << name;
      expect_capture(name, field.value, captures.at(name));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 221);
}

// Steps 14 to 21 of the same run, by an independent decoder, under both readings of the index keys.
TEST_F(HostDecoder, GoesOnAsTheOtherDecoderDoes) {
  for (const bool published_last : {true, false}) {
    SCOPED_TRACE(published_last);
    host::Decoder decoder = this->decoder({published_last, true});
    const std::vector<TokenId> ids = tokens(22);
    run(decoder, {ids.begin(), ids.begin() + 12});
    run(decoder, {ids[12]});
    run(decoder, {ids[13]});
    const char* reading = published_last ? "published_slot" : "owner_keys";
    std::size_t position = 14;
    for (const JsonElement step :
         JsonArray(at(golden_run(), {"derived", reading}).get_array().value_unsafe())) {
      const Captures captures = run(decoder, {ids[position]});
      for (const char* layer : {"L2", "L4", "L5"}) {
        EXPECT_EQ(captures.at("shared." + std::string(layer) + ".topk_idxs"),
                  numbers(at(step, {std::string(layer) + "_topk"})))
            << position << layer;
      }
      const std::vector<double>& logits = captures.at("logits_full");
      const std::vector<double> listed = numbers(at(step, {"logits_stride7"}));
      for (std::size_t i = 0; i < listed.size(); ++i) EXPECT_NEAR(logits[7 * i], listed[i], 1e-5);
      ++position;
    }
    EXPECT_EQ(position, 22);
  }
}

// A prompt with an image span of four tokens at positions 5 to 8.
struct Prompt {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> mask;
  host::Matrix images;

  Prompt part(std::size_t begin, std::size_t end) const {
    const auto cut = [&](auto& values, std::size_t width) {
      using Values = std::decay_t<decltype(values)>;
      return Values(values.begin() + static_cast<std::ptrdiff_t>(begin * width),
                    values.begin() + static_cast<std::ptrdiff_t>(end * width));
    };
    Prompt result{cut(ids, 1), cut(mask, 1), {}};
    result.images.append(cut(images.values, images.columns), images.columns);
    return result;
  }
};

Prompt with_image(std::vector<TokenId> ids, const host::Shape& shape) {
  Prompt prompt{std::move(ids), {}, {}};
  prompt.mask.assign(prompt.ids.size(), 1);
  std::fill_n(prompt.mask.begin() + 5, 4, std::uint8_t{0});
  prompt.images.append(host::tensor_values("image", {prompt.ids.size(), shape.dim}), shape.dim);
  return prompt;
}

// The logits of `prompt` in steps of these lengths, each kept whole.
std::vector<float> in_steps(host::Decoder& decoder, const Prompt& prompt,
                            const std::vector<std::size_t>& lengths) {
  std::vector<float> logits;
  std::size_t begin = 0;
  for (const std::size_t length : lengths) {
    const Prompt step = prompt.part(begin, begin + length);
    const auto out = decoder.forward(step.ids, step.mask, step.images);
    EXPECT_TRUE(is_ok(out));
    if (!out) return {};
    logits.insert(logits.end(), out->values.begin(), out->values.end());
    EXPECT_TRUE(is_ok(decoder.accept(length)));
    begin += length;
  }
  return logits;
}

constexpr host::Options kEveryStepAlike = {false, false};

TEST_F(HostDecoder, StepsEqualOnePrefill) {
  const Prompt prompt = with_image(tokens(34), shape_);
  host::Decoder whole = decoder(kEveryStepAlike);
  const std::vector<float> expected = in_steps(whole, prompt, {34});
  std::vector<std::size_t> steps = {12};
  steps.insert(steps.end(), 22, 1);
  for (const auto& lengths : {steps, {7, 5, 1, 9, 12}, std::vector<std::size_t>(34, 1)}) {
    host::Decoder decoder = this->decoder(kEveryStepAlike);
    EXPECT_EQ(in_steps(decoder, prompt, lengths), expected);
  }
}

TEST_F(HostDecoder, RejectedDraftsLeaveNoTrace) {
  const Prompt prompt = with_image(tokens(34), shape_);
  host::Decoder whole = decoder(kEveryStepAlike);
  const std::vector<float> expected = in_steps(whole, prompt, {34});
  host::Decoder decoder = this->decoder(kEveryStepAlike);
  std::vector<float> logits = in_steps(decoder, prompt.part(0, 12), {12});
  for (std::size_t accepted = 1; decoder.position() < 34; accepted = accepted % 4 + 1) {
    const std::size_t begin = decoder.position();
    const std::size_t kept = std::min(accepted, 34 - begin);
    // Four tokens, of which those after the first `kept` are wrong.
    std::vector<TokenId> drafts(prompt.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                prompt.ids.begin() + static_cast<std::ptrdiff_t>(begin + kept));
    drafts.resize(4, 63);
    const auto out = decoder.forward(drafts);
    ASSERT_TRUE(is_ok(out));
    logits.insert(logits.end(), out->values.begin(),
                  out->values.begin() + static_cast<std::ptrdiff_t>(kept * shape_.vocab_size));
    ASSERT_TRUE(is_ok(decoder.accept(kept)));
  }
  EXPECT_EQ(logits, expected);
}

// What the tests above could not see if the memory did nothing.
TEST_F(HostDecoder, ImagesAndTheMemoryMoveTheLogits) {
  const Prompt prompt = with_image(tokens(12), shape_);
  host::Decoder with = decoder(kEveryStepAlike);
  host::Decoder without = decoder(kEveryStepAlike);
  const auto image = in_steps(with, prompt, {12});
  const auto text = without.forward(prompt.ids);
  ASSERT_TRUE(is_ok(text));
  EXPECT_NE(image, text->values);
  Captures captures;
  host::Decoder observed = decoder(kEveryStepAlike);
  captures = run(observed, prompt.ids);
  EXPECT_NE(captures.at("L1.engram_in"), captures.at("L1.engram_out"));
  EXPECT_NE(captures.at("L4.engram_in"), captures.at("L4.engram_out"));
}

TEST_F(HostDecoder, TheReferencesKeysTakeOneTokenAtATime) {
  host::Decoder decoder = this->decoder({});
  run(decoder, tokens(12));
  EXPECT_TRUE(fails(decoder.forward(tokens(2)), Code::unsupported, "one token at a time"));
}

}  // namespace
}  // namespace engram::test
