// JSON access with errors that name the field, over simdjson's DOM.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engram/status.hpp"

namespace engram {

using JsonElement = simdjson::dom::element;
using JsonObject = simdjson::dom::object;
using JsonArray = simdjson::dom::array;

// A parsed document; elements taken from root() live as long as it does. Movable.
class JsonDocument {
 public:
  // `where` names the source in every message. Code::corrupt if the text is not JSON.
  static Result<JsonDocument> parse(std::string_view text, std::string_view where);

  JsonElement root() const { return root_; }
  const std::string& where() const { return where_; }

 private:
  // On the heap, because elements point into the parser and must survive a move.
  std::unique_ptr<simdjson::dom::parser> parser_;
  JsonElement root_;
  std::string where_;
};

// The member `name`, or nothing where it is absent or null.
std::optional<JsonElement> json_find(JsonElement object, std::string_view name);

// Each returns the value, or Code::corrupt "field 'name': expected ..., found ...".
Result<JsonElement> json_require(JsonElement object, std::string_view name);
Result<std::string_view> json_require_string(JsonElement object, std::string_view name);
Result<JsonArray> json_require_array(JsonElement object, std::string_view name);
Result<JsonObject> json_require_object(JsonElement object, std::string_view name);
Result<std::int64_t> json_int(JsonElement value, std::string_view name);
Result<double> json_number(JsonElement value, std::string_view name);
Result<std::string_view> json_string(JsonElement value, std::string_view name);
Result<bool> json_bool(JsonElement value, std::string_view name);
Result<JsonArray> json_array(JsonElement value, std::string_view name);
Result<JsonObject> json_object(JsonElement value, std::string_view name);
Result<std::vector<std::int64_t>> json_ints(JsonElement value, std::string_view name);

// Code::corrupt naming the first key that an object spells twice. Parsers of other languages keep
// the last one, so a duplicate means two readers of one file disagree.
Status json_reject_duplicates(JsonObject object, std::string_view name);

// A JSON string literal of this text, quotes included.
std::string json_text(std::string_view text);

// An object again, compact, with `members` (name, JSON) put in place of its own or added;
// an empty JSON text takes its member out.
std::string json_with_members(JsonObject object,
                              const std::vector<std::pair<std::string, std::string>>& members);

// A boolean member that may be absent.
Result<bool> json_flag(JsonElement object, std::string_view name, bool absent);

}  // namespace engram
