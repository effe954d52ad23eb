// Byte-pair merges of one piece, lowest rank first and leftmost among equals.
#include "token/bpe.hpp"

#include <queue>
#include <tuple>

#include "base/error.hpp"
#include "token/byte_alphabet.hpp"

namespace engram {
namespace {

constexpr std::int32_t kNone = -1;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// A symbol of the piece being merged; a doubly linked list in an array.
struct Symbol {
  TokenId id;
  std::int32_t previous;
  std::int32_t next;
};

struct Candidate {
  std::int32_t rank;
  std::int32_t left;  // index of the left symbol
  TokenId left_id;    // what both symbols were when this was queued; else it is stale
  TokenId right_id;
  TokenId merged;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

// "a b" or ["a", "b"]: the two spellings that tokenizer.json files use.
Result<std::pair<std::string_view, std::string_view>> read_pair(JsonElement item) {
  std::string_view text;
  if (item.get(text) == simdjson::SUCCESS) {
    const std::size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
    return make_error(Code::corrupt, "merge '{}': expected two tokens and one space", text);
  }
  std::string_view left;
  std::string_view right;
  if (item.at(0).get(left) != simdjson::SUCCESS || item.at(1).get(right) != simdjson::SUCCESS) {
    return make_error(Code::corrupt, "a merge is neither a string nor a pair of strings");
  }
  return std::pair(left, right);
}

Status refuse_member(JsonElement model, std::string_view name) {
  const auto member = json_find(model, name);
  if (!member) return {};
  bool flag = false;
  std::string_view text;
  const bool inert = (member->get(flag) == simdjson::SUCCESS && !flag) ||
                     (member->get(text) == simdjson::SUCCESS && text.empty());
  if (inert) return {};
  return make_error(Code::unsupported, "BPE option '{}' is set; only plain byte-level BPE is read",
                    name);
}

}  // namespace

Result<Bpe> Bpe::make(const TokenizerJson& file) {
  const auto model = json_require(file.document.root(), "model");
  if (!model) return model.error();
  std::string_view type = "BPE";  // old files leave it out
  if (const auto field = json_find(*model, "type")) {
    const auto text = json_string(*field, "model.type");
    if (!text) return text.error();
    type = *text;
  }
  if (type != "BPE" || !file.byte_level) {
    return make_error(Code::unsupported, "model '{}'{}: expected byte-level BPE to encode text",
                      type, file.byte_level ? "" : " without a ByteLevel decoder");
  }
  for (const std::string_view name : {"dropout", "unk_token", "continuing_subword_prefix",
                                      "end_of_word_suffix", "fuse_unk", "byte_fallback"}) {
    ENGRAM_TRY(refuse_member(*model, name));
  }
  Bpe bpe;
  bpe.vocabulary_ = &file.ids;
  const auto ignore_merges = json_flag(*model, "ignore_merges", false);
  if (!ignore_merges) return ignore_merges.error();
  bpe.whole_piece_first_ = *ignore_merges;
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = file.ids.find(alphabet_spelling(static_cast<std::uint8_t>(byte)));
    bpe.byte_ids_[byte] = found == file.ids.end() ? kNone : found->second;
  }
  const auto merges = json_require(*model, "merges");
  if (!merges) return merges.error();
  ENGRAM_TRY(bpe.read_merges(*merges, file));
  return bpe;
}

Status Bpe::read_merges(JsonElement merges, const TokenizerJson& file) {
  const auto list = json_array(merges, "model.merges");
  if (!list) return list.error();
  merges_.reserve(list->size());
  std::int32_t rank = 0;
  std::string joined;
  for (const JsonElement item : *list) {
    const auto pair = read_pair(item);
    if (!pair) return pair.error();
    joined.assign(pair->first).append(pair->second);
    const auto left = file.ids.find(pair->first);
    const auto right = file.ids.find(pair->second);
    const auto merged = file.ids.find(joined);
    if (left == file.ids.end() || right == file.ids.end() || merged == file.ids.end()) {
      return make_error(Code::corrupt, "merge {} ('{}' + '{}'): not all of it is in the vocabulary",
                        rank, pair->first, pair->second);
    }
    merges_.try_emplace(pair_key(left->second, right->second), Merge{rank, merged->second});
    ++rank;
  }
  return {};
}

Status Bpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  std::string spelling;
  for (const char character : piece) {
    const auto byte = static_cast<std::uint8_t>(character);
    if (byte_ids_[byte] == kNone) {
      return make_error(Code::unsupported, "the vocabulary has no token for byte 0x{:02x}", byte);
    }
    const auto index = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({byte_ids_[byte], index - 1, index + 1});
    if (whole_piece_first_) spelling += alphabet_spelling(byte);
  }
  if (symbols.empty()) return {};
  symbols.back().next = kNone;
  if (const auto whole = vocabulary_->find(spelling);
      whole_piece_first_ && whole != vocabulary_->end()) {
    out.push_back(whole->second);
    return {};
  }

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::int32_t left) {
    if (left == kNone || symbols[left].next == kNone) return;
    const TokenId left_id = symbols[left].id;
    const TokenId right_id = symbols[symbols[left].next].id;
    const auto found = merges_.find(pair_key(left_id, right_id));
    if (found == merges_.end()) return;
    queue.push({found->second.rank, left, left_id, right_id, found->second.merged});
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) consider(static_cast<std::int32_t>(i));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.left];
    const std::int32_t right = left.next;
    if (left.id != best.left_id || right == kNone || symbols[right].id != best.right_id) continue;
    left.id = best.merged;
    left.next = symbols[right].next;
    symbols[right].id = kNone;  // absorbed: any candidate that starts here is stale
    if (left.next != kNone) symbols[left.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (std::int32_t i = 0; i != kNone; i = symbols[i].next) out.push_back(symbols[i].id);
  return {};
}

}  // namespace engram
