// What a runtime sees after an install: public headers and the library, nothing else.
#include <cstdio>
#include <vector>

#include "engram/engine.hpp"

int main(int argc, char** argv) {
  // The ten lines of the README.
  auto engine = engram::Engine::open(argc > 1 ? argv[1] : "no-such-model");
  if (!engine) {
    std::printf("%s\n", engine.error().message.c_str());
    return engine.error().code == engram::Code::not_found ? 0 : 1;
  }
  engram::Session session(*engine);
  const std::vector<engram::TokenId> tokens = {5, 6, 7};
  if (!session.advance(tokens)) return 1;
  const engram::GateShape& shape = engine->gate(0)->shape();
  std::vector<float> hidden(tokens.size() * shape.copies * shape.hidden_dim, 0.5f);
  const std::int64_t layer = engine->checkpoint().config().layer_ids[0];
  if (!session.apply(layer, hidden, engram::Rounding::reference)) return 1;
  std::printf("%f\n", static_cast<double>(hidden[0]));
  return hidden[0] == 0.5f ? 1 : 0;
}
