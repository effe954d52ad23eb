// A model of a few hundred KiB, built byte by byte and independent of the library's own writer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/random.hpp"
#include "tests/support/temporary.hpp"

namespace engram::test {

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

// A safetensors file of these tensors in this order.
inline std::string safetensors(const std::vector<Tensor>& tensors) {
  std::string json = "{";
  std::string payload;
  for (const Tensor& tensor : tensors) {
    std::string shape;
    for (const std::uint64_t dim : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    }
    json += (json.size() > 1 ? ",\"" : "\"") + tensor.name + R"(":{"dtype":")" + tensor.dtype +
            R"(","shape":[)" + shape + R"(],"data_offsets":[)" + std::to_string(payload.size()) +
            "," + std::to_string(payload.size() + tensor.bytes.size()) + "]}";
    payload += tensor.bytes;
  }
  json += "}";
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(static_cast<std::uint64_t>(json.size()) >> (8 * i));
  }
  return length + json + payload;
}

// The toy layout of hash_fixture.hpp as a model: rows of 32, two copies of 16.
class TinyModel {
 public:
  static constexpr std::size_t kHeadDim = 32;
  static constexpr std::size_t kHidden = 16;
  static constexpr std::size_t kCopies = 2;
  static constexpr std::size_t kInputs = 3 * 2 * kHeadDim;
  static constexpr std::size_t kOutputs = (kCopies + 1) * kHidden;

  TinyModel() {
    config = {{"model_type", R"("deepseek_v41")"},
              {"engram_layer_ids", "[1,14]"},
              {"engram_num_embeddings", "[660,864]"},
              {"engram_max_ngram_size", "4"},
              {"engram_n_heads", "2"},
              {"engram_head_dim", "32"},
              {"engram_vocab_size", "101"},
              {"engram_compressed_vocab_size", "16"},
              {"engram_pad_token_id", "2"},
              {"vocab_size", "16"},
              {"hidden_size", "16"},
              {"hc_mult", "2"},
              {"rms_norm_eps", "1e-20"}};
    for (char c = 'a'; c < 'q'; ++c) tokens.emplace_back(1, c);
    Random random(9);
    for (const auto& [layer, rows] : {std::pair{1, 660}, {14, 864}}) {
      const std::string prefix = "layers." + std::to_string(layer) + ".engram.";
      const auto count = static_cast<std::uint64_t>(rows);
      shards.push_back({
          {prefix + "embed.weight", "F8_E4M3", {count, kHeadDim}, codes(random, count * kHeadDim)},
          {prefix + "embed.scale", "F8_E8M0", {count, 1}, scales(random, count)},
          {prefix + "wkv.weight",
           "F8_E4M3",
           {kOutputs, kInputs},
           codes(random, kOutputs * kInputs)},
          {prefix + "wkv.scale", "F8_E8M0", {2, kInputs / 32}, scales(random, 2 * kInputs / 32)},
          {prefix + "q_weight", "BF16", {kCopies, kHidden}, norms(random)},
          {prefix + "k_weight", "BF16", {kCopies, kHidden}, norms(random)},
      });
    }
  }

  // Members that tests change before write().
  std::map<std::string, std::string> config;  // field -> JSON
  std::vector<std::string> tokens;
  std::vector<std::vector<Tensor>> shards;

  // The tensor whose name ends so.
  Tensor& tensor(const std::string& suffix) {
    for (auto& shard : shards) {
      for (Tensor& candidate : shard) {
        if (candidate.name.ends_with(suffix)) return candidate;
      }
    }
    ADD_FAILURE() << "no tensor " << suffix;
    return shards[0][0];
  }

  void for_each_tensor(const std::function<void(Tensor&)>& change) {
    for (auto& shard : shards) {
      for (Tensor& tensor : shard) change(tensor);
    }
  }

  static std::string shard_name(std::size_t i) {
    return "model-0000" + std::to_string(i + 1) + "-of-00002.safetensors";
  }

  std::string config_json() const {
    std::string json;
    for (const auto& [name, value] : config) {
      json += (json.empty() ? "\"" : ",\"") + name + "\":" + value;
    }
    return "{" + json + "}";
  }

  std::string index_json() const {
    std::string map;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const Tensor& tensor : shards[i]) {
        map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"" + shard_name(i) + "\"";
      }
    }
    return R"({"metadata":{"total_size":0},"weight_map":{)" + map + "}}";
  }

  void write(const TemporaryDirectory& folder) const {
    write_file(folder / "config.json", config_json());
    std::string vocab;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      vocab += (id == 0 ? "\"" : ",\"") + tokens[id] + "\":" + std::to_string(id);
    }
    write_file(folder / "tokenizer.json",
               R"({"decoder":null,"model":{"type":"WordLevel","vocab":{)" + vocab + "}}}");
    for (std::size_t i = 0; i < shards.size(); ++i) {
      write_file(folder / shard_name(i), safetensors(shards[i]));
    }
    write_file(folder / "model.safetensors.index.json", index_json());
  }

 private:
  static std::string codes(Random& random, std::size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(random.next());
      if ((byte & 0x7F) == 0x7F) byte = static_cast<char>(byte ^ 1);
    }
    return bytes;
  }
  static std::string scales(Random& random, std::size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(0x74 + random.below(5));
    return bytes;
  }
  static std::string norms(Random& random) {
    std::string bytes;
    for (std::size_t i = 0; i < kCopies * kHidden; ++i) {
      bytes += static_cast<char>(random.next());
      bytes += '\x3f';
    }
    return bytes;
  }
};

}  // namespace engram::test
