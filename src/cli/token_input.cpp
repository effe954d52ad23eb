// The token inputs that subcommands share: --ids, --text, --ids-file, --mask, --chunk.
#include "cli/token_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>

#include "cli/command.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

Result<std::vector<TokenId>> to_token_ids(const std::vector<std::int64_t>& numbers) {
  std::vector<TokenId> ids;
  for (const std::int64_t number : numbers) {
    if (number < std::numeric_limits<TokenId>::min() ||
        number > std::numeric_limits<TokenId>::max()) {
      return Error{Code::out_of_range, 0, fmt::format("token id {} does not fit 32 bits", number)};
    }
    ids.push_back(static_cast<TokenId>(number));
  }
  return ids;
}

Result<std::vector<TokenId>> parse_ids(const std::string& text, const std::string& what) {
  const auto numbers = parse_numbers(text, what);
  if (!numbers) return numbers.error();
  return to_token_ids(*numbers);
}

Result<std::vector<TokenId>> encode(const std::string& text, const std::string& tokenizer_path) {
  if (tokenizer_path.empty()) {
    return Error{Code::not_found, 0, "--text needs a tokenizer.json; the model has none"};
  }
  const auto tokenizer = Tokenizer::from_file(tokenizer_path);
  if (!tokenizer) return tokenizer.error();
  return tokenizer->encode(text);
}

}  // namespace

void TokenInput::add_options(const Command& command, bool required) {
  const Command group = command.add_group("input", "Tokens, in one of three ways");
  group.add_option("--ids", ids, "Token ids: 5,6,7");
  group.add_option("--text", text, "Text, through the model's tokenizer");
  group.add_option("--ids-file", ids_file, "File of token ids, separated by commas or space");
  group.require_option(required);
  command.add_option("--mask", mask, "One value per token: 1 text, 0 takes no part (images)");
  command.add_option("--chunk", chunk, "Feed this many tokens at a time through one session");
}

Result<std::vector<std::int64_t>> parse_numbers(const std::string& text, const std::string& what) {
  constexpr std::string_view kSeparators = " \t\r\n,[]";
  std::vector<std::int64_t> numbers;
  std::size_t begin = text.find_first_not_of(kSeparators);
  while (begin != std::string::npos) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    std::int64_t number = 0;
    const auto [stop, code] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (code != std::errc() || stop != text.data() + end) {
      return usage_error(fmt::format("{}: expected whole numbers, found '{}'", what,
                                     text.substr(begin, std::min<std::size_t>(end - begin, 40))));
    }
    numbers.push_back(number);
    begin = text.find_first_not_of(kSeparators, end);
  }
  return numbers;
}

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf()))) {
    return Error{Code::not_found, 0, fmt::format("{}: cannot read", path)};
  }
  return text.str();
}

Result<std::vector<TokenId>> read_ids_file(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return text.error();
  return parse_ids(*text, path);
}

Result<Tokens> read_tokens(const TokenInput& input, const std::string& tokenizer_path) {
  auto ids = !input.ids_file.empty() ? read_ids_file(input.ids_file)
             : !input.text.empty()   ? encode(input.text, tokenizer_path)
                                     : parse_ids(input.ids, "--ids");
  if (!ids) return std::move(ids).error();
  Tokens tokens{*std::move(ids), {}};
  const auto mask = parse_numbers(input.mask, "--mask");
  if (!mask) return mask.error();
  if (!mask->empty() && mask->size() != tokens.ids.size()) {
    return usage_error(fmt::format("--mask: expected {} values, one per token, found {}",
                                   tokens.ids.size(), mask->size()));
  }
  for (const std::int64_t value : *mask) {
    if (value != 0 && value != 1) {
      return usage_error(fmt::format("--mask: expected 0 or 1, found {}", value));
    }
    tokens.mask.push_back(static_cast<std::uint8_t>(value));
  }
  return tokens;
}

Status for_each_chunk(Session& session, const Tokens& tokens, std::size_t chunk,
                      const std::function<Status(std::size_t first)>& visit) {
  const std::span<const TokenId> ids = tokens.ids;
  const std::span<const std::uint8_t> mask = tokens.mask;
  const std::size_t step = chunk == 0 ? std::max<std::size_t>(ids.size(), 1) : chunk;
  const Progress progress = progress_bar("tokens", Counts::other);
  for (std::size_t first = 0; first < ids.size(); first += step) {
    const std::size_t count = std::min(step, ids.size() - first);
    ENGRAM_TRY(session.advance(ids.subspan(first, count),
                               mask.empty() ? mask : mask.subspan(first, count)));
    ENGRAM_TRY(visit(first));
    if (progress) progress(first + count, ids.size());
  }
  return {};
}

}  // namespace engram::cli
