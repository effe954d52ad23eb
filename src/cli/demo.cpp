// engram demo: a small model, one sentence, and what its memory does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>

#include "engram/engine.hpp"

#include "cli/command.hpp"
#include "cli/demo_model.hpp"

namespace engram::cli {
namespace {

constexpr std::string_view kSentence =
    "The memory remembers: a memory of the memory is a memory that remembers.";

struct DemoOptions {
  std::string text{kSentence};
};

// Token texts as a person reads them: control bytes and broken UTF-8 as <xx>.
std::string printable(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      text += c;
    } else {
      text += fmt::format("<{:02x}>", byte);
    }
  }
  return text;
}

// A residual stream to gate against: smooth, non-zero, the same in every run.
std::vector<float> made_up_stream(std::size_t count) {
  std::vector<float> stream(count);
  for (std::size_t i = 0; i < count; ++i) {
    stream[i] = static_cast<float>((i * 37 + i / 256 * 11) % 127) / 64.0f - 1.0f;
  }
  return stream;
}

class Demo {
 public:
  Demo(const Engine& engine, const Tokenizer& tokenizer)
      : engine_(engine), tokenizer_(tokenizer), session_(engine) {}

  Status show(const std::string& text) {
    auto tokens = tokenizer_.encode(text);
    if (!tokens) return std::move(tokens).error();
    tokens_ = *std::move(tokens);
    for (const TokenId token : tokens_) {
      auto bytes = tokenizer_.decode(token);
      if (!bytes) return std::move(bytes).error();
      texts_.push_back(printable(*bytes));
    }
    fmt::print("\"{}\"\n{} tokens: {}\n", text, tokens_.size(), fmt::join(texts_, "|"));
    ENGRAM_TRY(session_.advance(tokens_));
    for (const LayerHash& layer : engine_.hasher().spec().layers()) ENGRAM_TRY(show_layer(layer));
    return time_tokens();
  }

 private:
  Status show_layer(const LayerHash& layer) {
    const HashConfig& config = engine_.hasher().spec().config();
    const auto table = engine_.hasher().spec().table_index(layer.layer_id);
    if (!table) return table.error();
    const GateShape& shape = engine_.gate(*table)->shape();
    std::vector<float> stream = made_up_stream(tokens_.size() * shape.copies * shape.hidden_dim);
    std::vector<float> gates(tokens_.size() * shape.copies);
    ENGRAM_TRY(session_.apply(layer.layer_id, stream, Rounding::reference, gates));
    std::vector<RowId> rows(tokens_.size() * static_cast<std::size_t>(config.columns()));
    ENGRAM_TRY(session_.rows(layer.layer_id, rows));
    fmt::print("\nlayer {}: {} rows of {}\n", layer.layer_id, layer.row_count,
               engine_.checkpoint().config().head_dim);
    const auto heads = static_cast<std::size_t>(config.heads);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const float* g = gates.data() + i * shape.copies;
      fmt::print("{:>3} {:<14} gate {:.3f}\n", i, texts_[i], fmt::join(g, g + shape.copies, " "));
      for (int order = 2; order <= config.max_order; ++order) {
        const RowId* r = rows.data() + (i * config.orders() + order - 2) * heads;
        fmt::print("      {}-gram {:<24} rows {}\n", order, ngram_text(i, order),
                   fmt::join(r, r + heads, " "));
      }
    }
    return {};
  }

  // The tokens of the n-gram that ends at position i; "." where it reaches before the start.
  std::string ngram_text(std::size_t i, int order) const {
    std::string text;
    for (int back = order - 1; back >= 0; --back) {
      const auto distance = static_cast<std::size_t>(back);
      text += distance <= i ? texts_[i - distance] : ".";
      if (back > 0) text += '|';
    }
    return text;
  }

  // One token at a time through hash, lookup and gate of every layer, as decoding does.
  Status time_tokens() const {
    Session session(engine_);
    const GateShape& shape = engine_.gate(0)->shape();
    std::vector<float> stream = made_up_stream(shape.copies * shape.hidden_dim);
    const auto begin = std::chrono::steady_clock::now();
    for (const TokenId& token : tokens_) {
      ENGRAM_TRY(session.advance({&token, 1}));
      for (const LayerHash& layer : engine_.hasher().spec().layers()) {
        ENGRAM_TRY(session.apply(layer.layer_id, stream, Rounding::reference));
      }
    }
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - begin;
    fmt::print("\n{:.1f} us per token: hash, lookup and gate of {} layers, one token at a time\n",
               spent.count() / static_cast<double>(tokens_.size()),
               engine_.hasher().spec().layers().size());
    return {};
  }

  const Engine& engine_;
  const Tokenizer& tokenizer_;
  Session session_;
  std::vector<TokenId> tokens_;
  std::vector<std::string> texts_;
};

Status run_demo(const DemoOptions& options) {
  if (options.text.empty()) return usage_error("demo: --text is empty");
  const auto model = DemoModel::make();
  if (!model) return model.error();
  const auto engine = Engine::open(model->directory());
  if (!engine) return engine.error();
  const auto tokenizer = Tokenizer::from_file(engine->checkpoint().tokenizer_path());
  if (!tokenizer) return tokenizer.error();
  return Demo(*engine, *tokenizer).show(options.text);
}

}  // namespace

void add_demo(const Command& app) {
  const auto options = std::make_shared<DemoOptions>();
  const Command command =
      app.add_subcommand("demo", "Makes a small model and shows what fires for a sentence");
  command.add_option("--text", options->text, "Another sentence");
  command.runs([options] { return run_demo(*options); });
}

}  // namespace engram::cli
