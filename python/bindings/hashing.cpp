// HashSpec and Hasher: the constants, and token ids to keys and rows.
#include <nanobind/stl/vector.h>

#include <vector>

#include "engram/hash.hpp"

#include "arrays.hpp"
#include "bindings.hpp"

namespace engram::python {
namespace {

// Hashes raw token ids, so it holds the map too.
struct TokenHasher {
  TokenMap map;
  Hasher hasher;
};

std::size_t orders_of(const HashSpec& spec) {
  return static_cast<std::size_t>(spec.config().orders());
}

const LayerHash& layer_of(const HashSpec& spec, std::int64_t layer) {
  return spec.layers()[static_cast<std::size_t>(value_of(spec.table_index(layer)))];
}

HashSpec compute(const std::vector<std::int64_t>& layer_ids, std::int64_t engram_vocab_size,
                 std::int64_t compressed_size, CompressedId pad, int max_order, int heads) {
  const HashConfig config = {layer_ids, max_order, heads, engram_vocab_size, compressed_size, pad};
  return value_of(without_gil([&] { return HashSpec::compute(config); }));
}

nb::object hash_batch(const TokenHasher& self, nb::handle ids, nb::handle query_start,
                      nb::handle lookback, nb::handle mask) {
  const Integers<TokenId> tokens(ids, "ids");
  const Integers<std::int64_t> starts(query_start, "query_start");
  const Integers<TokenId> windows(lookback, "lookback");
  const Mask masked(mask, tokens.values().size());
  const HashSpec& spec = self.hasher.spec();
  const std::size_t sequences = starts.values().empty() ? 0 : starts.values().size() - 1;
  if (starts.values().empty()) starts.array().refuse("[sequences + 1] positions");
  if (windows.values().size() != sequences * orders_of(spec)) {
    windows.array().refuse("token ids " + shape_text({sequences, orders_of(spec)}));
  }
  const Shape shape = {spec.layers().size(), tokens.values().size(), orders_of(spec)};
  nb::object keys = empty(shape, "uint64");
  const Array place = Array::output(keys, "keys");
  check(without_gil([&] {
    const TokenBatch batch = {tokens.values(), masked.values(), starts.values(), windows.values()};
    return engram::hash_batch(self.map, self.hasher, batch, place.elements<Key>());
  }));
  return keys;
}

nb::object hash(const TokenHasher& self, nb::handle ids, nb::handle mask) {
  const std::size_t length = Integers<TokenId>(ids, "ids").values().size();
  const std::vector<TokenId> before(orders_of(self.hasher.spec()), kBeforeStart);
  const std::vector<std::int64_t> start = {0, static_cast<std::int64_t>(length)};
  return hash_batch(self, ids, copied(std::span(start), {2}, "int64"),
                    copied(std::span(before), {1, before.size()}, "int32"), mask);
}

nb::object rows(const TokenHasher& self, std::int64_t layer, nb::handle keys) {
  const Array given = Array::input(keys, "keys");
  const HashSpec& spec = self.hasher.spec();
  const std::size_t orders = orders_of(spec);
  if (given.shape().empty() || given.shape().back() != orders) {
    given.refuse("uint64 [..., " + std::to_string(orders) + "]");
  }
  const auto values = key_values(given);
  const int table = value_of(spec.table_index(layer));
  Shape shape = given.shape();
  shape.back() = static_cast<std::size_t>(spec.config().columns());
  nb::object out = empty(shape, "int64");
  const Array place = Array::output(out, "rows");
  check(without_gil([&] { return self.hasher.rows(table, values, place.elements<RowId>()); }));
  return out;
}

// A property of one layer as uint64 [n].
template <typename Member>
auto constants(Member member) {
  return [member](const HashSpec& spec, std::int64_t layer) {
    const std::vector<std::uint64_t>& values = layer_of(spec, layer).*member;
    return copied(std::span(values), {values.size()}, "uint64");
  };
}

void add_spec(nb::module_& module) {
  nb::class_<HashSpec>(module, "HashSpec", "The constants that n-grams are hashed with. Immutable.")
      .def_static("compute", &compute, nb::arg("layer_ids"), nb::kw_only(),
                  nb::arg("engram_vocab_size"), nb::arg("compressed_size"), nb::arg("pad"),
                  nb::arg("max_order") = 4, nb::arg("heads") = 8,
                  "From the fields of a model's config.json: primes begin at engram_vocab_size; "
                  "`pad` is engram_pad_token_id after compression.")
      .def_prop_ro("layer_ids", [](const HashSpec& spec) { return spec.config().layer_ids; })
      .def_prop_ro(
          "orders", [](const HashSpec& spec) { return spec.config().orders(); },
          "N-gram lengths: 2, 3, ...")
      .def_prop_ro(
          "heads", [](const HashSpec& spec) { return spec.config().heads; }, "Rows per order.")
      .def_prop_ro(
          "columns", [](const HashSpec& spec) { return spec.config().columns(); },
          "Rows per token and layer.")
      .def_prop_ro(
          "pad", [](const HashSpec& spec) { return spec.config().pad; },
          "The compressed id that stands for positions before the sequence and dead ones.")
      .def("multipliers", constants(&LayerHash::multipliers), nb::arg("layer"),
           "uint64 [max_order], by distance; odd.")
      .def("primes", constants(&LayerHash::primes), nb::arg("layer"),
           "uint64 [columns], by order, then head.")
      .def("offsets", constants(&LayerHash::offsets), nb::arg("layer"),
           "uint64 [columns]: where each column's rows begin.")
      .def(
          "row_count",
          [](const HashSpec& spec, std::int64_t layer) { return layer_of(spec, layer).row_count; },
          nb::arg("layer"));
}

}  // namespace

nb::object make_hasher(const Engine& engine) {
  return nb::cast(TokenHasher{engine.token_map(), engine.hasher()});
}

void add_hashing(nb::module_& module) {
  add_spec(module);
  module.attr("BEFORE_START") = kBeforeStart;
  module.attr("MASKED") = kMasked;
  nb::class_<TokenHasher>(module, "Hasher",
                          "Token ids to n-gram keys and row ids. Immutable; any number of threads "
                          "may use one.")
      .def(
          "__init__",
          [](TokenHasher* self, const HashSpec& spec, const TokenMap& map) {
            if (map.compressed_size() != spec.config().compressed_size) {
              raise(Code::invalid_argument,
                    "token_map: expected " + std::to_string(spec.config().compressed_size) +
                        " compressed ids, found " + std::to_string(map.compressed_size()));
            }
            new (self) TokenHasher{map, Hasher(spec)};
          },
          nb::arg("spec"), nb::arg("token_map"))
      .def_prop_ro("spec", [](const TokenHasher& self) { return self.hasher.spec(); })
      .def("hash_batch", &hash_batch, nb::arg("ids"), nb::arg("query_start"), nb::arg("lookback"),
           nb::arg("mask") = nb::none(),
           "Many sequences in one call, as a runtime with paged ones has them at hand.\n\n"
           "ids [tokens]: raw token ids (int32 or int64), sequence i from query_start[i] to "
           "query_start[i + 1];\nlookback [sequences, orders]: the raw ids before each, newest "
           "first; MASKED for a position that takes no part, BEFORE_START from the start on;\n"
           "mask [tokens]: 1 text, 0 takes no part.\n\n-> keys, uint64 [layers, tokens, orders].")
      .def("hash", &hash, nb::arg("ids"), nb::arg("mask") = nb::none(),
           "One whole sequence: ids [tokens] -> keys, uint64 [layers, tokens, orders].")
      .def("rows", &rows, nb::arg("layer"), nb::arg("keys"),
           "keys [..., orders] of one layer -> row ids, int64 [..., columns].");
}

}  // namespace engram::python
