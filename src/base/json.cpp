// JSON access with errors that name the field, over simdjson's DOM.
#include "base/json.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/error.hpp"

namespace engram {
namespace {

std::string_view type_name(JsonElement value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::INT64:
      return "an integer";
    case simdjson::dom::element_type::UINT64:
      return "an integer above 2^63";
    case simdjson::dom::element_type::DOUBLE:
      return "a fraction";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "a boolean";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
  }
  return "an unknown value";
}

template <typename T>
Result<T> json_as(JsonElement value, std::string_view name, std::string_view expected) {
  T result;
  if (value.get(result) != simdjson::SUCCESS) {
    return make_error(Code::corrupt, "field '{}': expected {}, found {}", name, expected,
                      type_name(value));
  }
  return result;
}

}  // namespace

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view where) {
  JsonDocument document;
  document.where_ = where;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  const simdjson::error_code code =
      document.parser_->parse(text.data(), text.size(), /*realloc_if_needed=*/true)
          .get(document.root_);
  if (code != simdjson::SUCCESS) {
    return make_error(code == simdjson::MEMALLOC ? Code::out_of_memory : Code::corrupt,
                      "{}: not valid JSON: {}", where, simdjson::error_message(code));
  }
  return document;
}

std::optional<JsonElement> json_find(JsonElement object, std::string_view name) {
  JsonElement member;
  if (object.at_key(name).get(member) != simdjson::SUCCESS || member.is_null()) return std::nullopt;
  return member;
}

Result<JsonElement> json_require(JsonElement object, std::string_view name) {
  if (const auto member = json_find(object, name)) return *member;
  return make_error(Code::corrupt, "field '{}' is missing", name);
}

Result<std::string_view> json_require_string(JsonElement object, std::string_view name) {
  const auto member = json_require(object, name);
  return member ? json_string(*member, name) : Result<std::string_view>(member.error());
}

Result<JsonArray> json_require_array(JsonElement object, std::string_view name) {
  const auto member = json_require(object, name);
  return member ? json_array(*member, name) : Result<JsonArray>(member.error());
}

Result<JsonObject> json_require_object(JsonElement object, std::string_view name) {
  const auto member = json_require(object, name);
  return member ? json_object(*member, name) : Result<JsonObject>(member.error());
}

Result<std::int64_t> json_int(JsonElement value, std::string_view name) {
  return json_as<std::int64_t>(value, name, "an integer");
}

Result<double> json_number(JsonElement value, std::string_view name) {
  return json_as<double>(value, name, "a number");
}

Result<std::string_view> json_string(JsonElement value, std::string_view name) {
  return json_as<std::string_view>(value, name, "a string");
}

Result<bool> json_bool(JsonElement value, std::string_view name) {
  return json_as<bool>(value, name, "true or false");
}

Result<JsonArray> json_array(JsonElement value, std::string_view name) {
  return json_as<JsonArray>(value, name, "an array");
}

Result<JsonObject> json_object(JsonElement value, std::string_view name) {
  return json_as<JsonObject>(value, name, "an object");
}

Result<std::vector<std::int64_t>> json_ints(JsonElement value, std::string_view name) {
  const Result<JsonArray> array = json_array(value, name);
  if (!array) return array.error();
  std::vector<std::int64_t> result;
  for (const JsonElement item : *array) {
    const Result<std::int64_t> number = json_int(item, name);
    if (!number) return number.error();
    result.push_back(*number);
  }
  return result;
}

Status json_reject_duplicates(JsonObject object, std::string_view name) {
  std::unordered_set<std::string_view> seen;
  for (const auto field : object) {
    if (!seen.insert(field.key).second) {
      return make_error(Code::corrupt, "{}: key '{}' appears twice", name, field.key);
    }
  }
  return {};
}

Result<bool> json_flag(JsonElement object, std::string_view name, bool absent) {
  const auto member = json_find(object, name);
  return member ? json_bool(*member, name) : Result<bool>(absent);
}

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string json_with_members(JsonObject object,
                              const std::vector<std::pair<std::string, std::string>>& members) {
  std::string result;
  const auto add = [&](std::string_view name, std::string_view value) {
    result += fmt::format("{}{}:{}", result.empty() ? "" : ",", json_text(name), value);
  };
  for (const auto field : object) {
    const bool replaced = std::any_of(members.begin(), members.end(), [&](const auto& member) {
      return member.first == field.key;
    });
    if (!replaced) add(field.key, std::string(simdjson::minify(field.value)));
  }
  for (const auto& [name, value] : members) {
    if (!value.empty()) add(name, value);
  }
  return "{" + result + "}";
}

}  // namespace engram
