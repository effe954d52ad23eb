// config.json of a model that has none: the fields that Engram needs, as the release spells them.
#include "convert/config_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace engram {

std::string model_config_json(const ModelConfig& config) {
  const std::string digest =
      config.token_map_sha256.empty()
          ? std::string()
          : fmt::format("\n    \"engram_token_map_sha256\": \"{}\",", config.token_map_sha256);
  return fmt::format(R"({{
  "architectures": ["DeepseekV41ForCausalLM"],
  "model_type": "deepseek_v41",
  "text_config": {{
    "model_type": "deepseek_v41_text",
    "engram_layer_ids": [{}],
    "engram_num_embeddings": [{}],
    "engram_max_ngram_size": {},
    "engram_vocab_size": {},
    "engram_n_heads": {},
    "engram_head_dim": {},
    "engram_pad_token_id": {},
    "engram_compressed_vocab_size": {},{}
    "hidden_size": {},
    "hc_mult": {},
    "rms_norm_eps": {},
    "vocab_size": {}
  }}
}}
)",
                     fmt::join(config.layer_ids, ", "), fmt::join(config.num_embeddings, ", "),
                     config.max_ngram_size, config.engram_vocab_size, config.heads, config.head_dim,
                     config.pad_token_id, config.compressed_vocab_size, digest, config.hidden_dim,
                     config.copies, config.norm_eps, config.vocab_size);
}

}  // namespace engram
