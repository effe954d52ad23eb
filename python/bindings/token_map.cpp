// TokenMap and Tokenizer.
#include "engram/token_map.hpp"

#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"

namespace engram::python {
namespace {

// A path, JSON's own str is not: from_json takes that. Objects of `tokenizers` and of transformers'
// fast tokenizers give their JSON themselves.
TokenMap from_tokenizer(nb::object tokenizer) {
  if (nb::hasattr(tokenizer, "backend_tokenizer")) tokenizer = tokenizer.attr("backend_tokenizer");
  if (nb::hasattr(tokenizer, "to_str")) {
    const auto json = nb::cast<std::string>(tokenizer.attr("to_str")());
    return value_of(without_gil([&] { return TokenMap::from_tokenizer_json(json, "tokenizer"); }));
  }
  const std::string path = path_of(tokenizer);
  return value_of(without_gil([&] { return TokenMap::from_tokenizer_file(path); }));
}

nb::object compress(const TokenMap& map, nb::handle tokens, nb::handle mask) {
  const Integers<TokenId> ids(tokens, "tokens");
  const Mask masked(mask, ids.values().size());
  nb::object out = empty(ids.shape(), "int32");
  const Array place = Array::output(out, "compressed");
  check(without_gil(
      [&] { return map.compress(ids.values(), masked.values(), place.elements<CompressedId>()); }));
  return out;
}

void add_map(nb::module_& module) {
  nb::class_<TokenMap>(module, "TokenMap",
                       "Token ids to compressed ids: tokens that differ only in case, accents or "
                       "white space share one.\n\nImmutable; any number of threads may use one.")
      .def_static(
          "from_tokenizer", &from_tokenizer, nb::arg("tokenizer"),
          "From the path of a tokenizer.json, a `tokenizers.Tokenizer`, or a fast tokenizer "
          "of transformers.")
      .def_static(
          "from_json",
          [](const std::string& json) {
            return value_of(
                without_gil([&] { return TokenMap::from_tokenizer_json(json, "json"); }));
          },
          nb::arg("json"), "From the text of a tokenizer.json.")
      .def_static(
          "from_ids",
          [](nb::handle ids) {
            const Integers<CompressedId> given(ids, "ids");
            const std::vector<CompressedId> copy(given.values().begin(), given.values().end());
            return value_of(TokenMap::from_ids(copy, "ids"));
          },
          nb::arg("ids"), "Adopts a finished map [tokens]: compressed ids in order of appearance.")
      .def_static(
          "load", [](nb::handle path) { return value_of(TokenMap::load(path_of(path))); },
          nb::arg("path"), "From a file of int32, little endian, as save writes it.")
      .def(
          "save", [](const TokenMap& map, nb::handle path) { check(map.save(path_of(path))); },
          nb::arg("path"), "Refuses to overwrite.")
      .def(
          "compress", &compress, nb::arg("tokens"), nb::arg("mask") = nb::none(),
          "tokens (int32 or int64, any shape), mask (1 text, 0 takes no part) -> int32 of the same "
          "shape; -1 where the mask is 0, whatever the id there. OutOfRangeError for other ids.")
      .def_prop_ro(
          "ids", [](const TokenMap& map) { return copied(map.ids(), {map.ids().size()}, "int32"); },
          "int32 [tokens]: the compressed id of every token id, a copy.")
      .def_prop_ro("compressed_size", &TokenMap::compressed_size, "Distinct compressed ids.")
      .def_prop_ro("sha256", &TokenMap::sha256,
                   "SHA-256 of the ids as int32, little endian, in hexadecimal.")
      .def("__len__", [](const TokenMap& map) { return map.ids().size(); });
}

}  // namespace

void add_token_map(nb::module_& module) {
  add_map(module);
  nb::class_<Tokenizer>(module, "Tokenizer",
                        "Byte-level BPE with a tokenizer.json's own rules, for tools and tests; "
                        "equal to `tokenizers` with add_special_tokens=False.")
      .def_static(
          "from_file",
          [](nb::handle path) {
            const std::string file = path_of(path);
            return value_of(without_gil([&] { return Tokenizer::from_file(file); }));
          },
          nb::arg("path"))
      .def(
          "encode",
          [](const Tokenizer& tokenizer, const std::string& text) {
            const auto ids = value_of(without_gil([&] { return tokenizer.encode(text); }));
            return copied(std::span<const TokenId>(ids), {ids.size()}, "int32");
          },
          nb::arg("text"), "int32 [tokens].")
      .def(
          "decode",
          [](const Tokenizer& tokenizer, TokenId id) {
            const std::string bytes = value_of(tokenizer.decode(id));
            return nb::bytes(bytes.data(), bytes.size());
          },
          nb::arg("id"), "The bytes of one token.");
}

}  // namespace engram::python
