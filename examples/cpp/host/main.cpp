// A host in small: host [MODEL_DIRECTORY]
//
// Makes the Engram tables of a toy DeepSeek-V4.1 in an empty directory (a temporary one unless
// given), opens them with libengram, and decodes greedily behind a prompt with an image in it, four
// drafts a step. Then it reads the whole sequence as one prefill and compares every logit.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "decoder.hpp"

namespace {

constexpr std::size_t kPrompt = 12;
constexpr std::size_t kSteps = 22;
constexpr std::size_t kDrafts = 4;

void check(const engram::Status& status) {
  if (status) return;
  std::fprintf(stderr, "host: %s\n", status.error().message.c_str());
  std::exit(1);
}

template <typename T>
T value_of(engram::Result<T> result) {
  if (!result) check(result.error());
  return *std::move(result);
}

engram::TokenId likeliest(std::span<const float> logits) {
  return static_cast<engram::TokenId>(std::max_element(logits.begin(), logits.end()) -
                                      logits.begin());
}

// Guesses of a drafter that is wrong about every third time: the last token, counted on.
std::vector<engram::TokenId> guess(engram::TokenId last, const host::Matrix& truth,
                                   std::size_t position) {
  std::vector<engram::TokenId> drafts = {last};
  for (std::size_t i = 0; i < kDrafts && position + i < truth.rows(); ++i) {
    const engram::TokenId right = likeliest(truth.row(position + i));
    drafts.push_back((position + i) % 3 == 0 ? (right + 1) % 64 : right);
  }
  return drafts;
}

}  // namespace

int main(int argc, char** argv) {
  std::string directory = argc > 1 ? argv[1] : "";
  const bool temporary = directory.empty();
  if (temporary) {
    directory = (std::filesystem::temp_directory_path() / "engram-host-XXXXXX").string();
    if (mkdtemp(directory.data()) == nullptr) return std::perror("host: mkdtemp"), 1;
  }
  const host::Shape shape;
  const host::Weights weights = host::make_weights(shape);
  check(host::write_engram_model(shape, directory));
  const engram::Engine engine = value_of(engram::Engine::open(directory));

  // The prompt: text, an image of four places, text.
  std::vector<engram::TokenId> sequence;
  for (std::size_t t = 0; t < kPrompt; ++t) {
    sequence.push_back(static_cast<engram::TokenId>(host::raw_number("input_ids", t) % 64));
  }
  std::vector<std::uint8_t> mask(kPrompt, 1);
  std::fill_n(mask.begin() + 5, 4, std::uint8_t{0});
  host::Matrix images;
  images.append(host::tensor_values("image", {kPrompt + kSteps, shape.dim}), shape.dim);
  const host::Options steps_alike = {false, false};

  // One token a step: the sequence and its logits.
  host::Decoder plain(weights, shape, engine, steps_alike);
  host::Matrix logits = value_of(plain.forward(sequence, mask, images));
  check(plain.accept(kPrompt));
  while (sequence.size() < kPrompt + kSteps) {
    sequence.push_back(likeliest(logits.row(logits.rows() - 1)));
    const host::Matrix step = value_of(plain.forward({&sequence.back(), 1}));
    check(plain.accept(1));
    logits.append(step.values, shape.vocab_size);
  }

  // The same with drafts: as many are kept as the model would have chosen itself.
  host::Decoder drafting(weights, shape, engine, steps_alike);
  host::Matrix drafted = value_of(drafting.forward({sequence.data(), kPrompt}, mask, images));
  check(drafting.accept(kPrompt));
  std::size_t forwards = 0;
  for (; drafting.position() < sequence.size(); ++forwards) {
    const std::size_t position = drafting.position();
    const auto tokens = guess(likeliest(drafted.row(position - 1)), logits, position);
    const host::Matrix out = value_of(drafting.forward(tokens));
    std::size_t kept = 1;
    while (kept < tokens.size() && position + kept < sequence.size() &&
           tokens[kept] == likeliest(out.row(kept - 1))) {
      ++kept;
    }
    check(drafting.accept(kept));
    for (std::size_t i = 0; i < kept; ++i) drafted.append(out.row(i), shape.vocab_size);
  }

  mask.resize(sequence.size(), 1);
  host::Decoder whole(weights, shape, engine, steps_alike);
  const host::Matrix at_once = value_of(whole.forward(sequence, mask, images));
  if (temporary) std::filesystem::remove_all(directory);

  std::printf("prompt of %zu tokens, 4 of them an image's; %zu more:", kPrompt, kSteps);
  for (std::size_t t = kPrompt; t < sequence.size(); ++t) std::printf(" %d", sequence[t]);
  const bool equal = at_once.values == logits.values && drafted.values == logits.values;
  std::printf("\n%zu steps of one token, %zu with drafts, one prefill of %zu: logits %s\n", kSteps,
              forwards, sequence.size(), equal ? "equal" : "DIFFER");
  return equal ? 0 : 1;
}
