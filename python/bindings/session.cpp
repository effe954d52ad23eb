// Session: one token timeline.

#include "arrays.hpp"
#include "bindings.hpp"

namespace engram::python {
namespace {

struct Timeline {
  explicit Timeline(std::shared_ptr<OpenModel> with)
      : model(std::move(with)), session(model->engine) {}
  Timeline(const Timeline& other) : model(other.model), session(other.session) {}

  std::shared_ptr<OpenModel> model;
  Session session;
  std::atomic<bool> in_use{false};

  std::size_t columns() const {
    return static_cast<std::size_t>(model->engine.hasher().spec().config().columns());
  }
};

constexpr const char* kWhat = "the session";

// advance or prepare.
template <typename Step>
auto take(Step step) {
  return [step](Timeline& self, nb::handle tokens, nb::handle mask) {
    const Integers<TokenId> ids(tokens, "tokens");
    const Mask masked(mask, ids.values().size());
    const InUse held(self.in_use, kWhat);
    check(without_gil([&] { return (self.session.*step)(ids.values(), masked.values()); }));
  };
}

std::unique_ptr<Timeline> copy(Timeline& self) {
  const InUse held(self.in_use, kWhat);
  return std::make_unique<Timeline>(self);
}

// position or length.
template <typename Count>
auto counted(Count count) {
  return [count](Timeline& self) {
    const InUse held(self.in_use, kWhat);
    return (self.session.*count)();
  };
}

nb::object keys(Timeline& self, std::int64_t layer) {
  const InUse held(self.in_use, kWhat);
  const auto values = value_of(self.session.keys(layer));
  const std::size_t length = self.session.length();
  const auto orders =
      static_cast<std::size_t>(self.model->engine.hasher().spec().config().orders());
  return copied(values, {length, orders}, "uint64");
}

nb::object rows(Timeline& self, std::int64_t layer) {
  const InUse held(self.in_use, kWhat);
  nb::object out = empty({self.session.length(), self.columns()}, "int64");
  const Array place = Array::output(out, "rows");
  check(without_gil([&] { return self.session.rows(layer, place.elements<RowId>()); }));
  return out;
}

nb::object lookup(Timeline& self, std::int64_t layer, nb::handle out, nb::handle dtype) {
  const InUse held(self.in_use, kWhat);
  const Memory& memory = self.model->memory();
  const int table = self.model->table(layer);
  const RowsOut to =
      rows_out(out, dtype, {self.session.length(), self.columns()},
               [&](OutputFormat format) { return memory.output_bytes(table, format); });
  check(without_gil([&] { return self.session.lookup(layer, to.output); }));
  return to.array;
}

void apply(Timeline& self, std::int64_t layer, nb::handle hidden, const std::string& rounding,
           nb::handle gates) {
  const InUse held(self.in_use, kWhat);
  const ModelConfig& config = self.model->engine.checkpoint().config();
  const auto copies = static_cast<std::size_t>(config.copies);
  const Shape shape = {self.session.length(), copies, static_cast<std::size_t>(config.hidden_dim)};
  const Array stream = Array::output(hidden, "hidden");
  const Rounding rounded = rounding_by_name(rounding);
  check_stream(stream, shape, rounded);
  const bool wide = stream.is(nb::dlpack::dtype_code::Float, 32);
  const GatesOut gate_values(gates, {shape[0], copies});
  check(without_gil([&] {
    return wide ? self.session.apply(layer, stream.elements<float>(), rounded, gate_values.values())
                : self.session.apply(layer, stream.elements<std::uint16_t>(), gate_values.values());
  }));
}

void add_steps(nb::class_<Timeline>& session) {
  session
      .def("advance", take(&Session::advance), nb::arg("tokens"), nb::arg("mask") = nb::none(),
           "Makes tokens [length] (mask [length]: 1 text, 0 takes no part) the current chunk and "
           "moves past it. On failure nothing has changed.")
      .def("prepare", take(&Session::prepare), nb::arg("tokens"), nb::arg("mask") = nb::none(),
           "The same without moving: drafts, of which commit takes the accepted ones.")
      .def(
          "commit",
          [](Timeline& self, std::size_t accepted) {
            const InUse held(self.in_use, kWhat);
            check(self.session.commit(accepted));
          },
          nb::arg("accepted"),
          "Moves past the first `accepted` prepared tokens; the rest leave no trace.")
      .def(
          "prefetch",
          [](Timeline& self, const std::string& priority) {
            const Priority soon = priority_by_name(priority);
            const InUse held(self.in_use, kWhat);
            check(without_gil([&] { return self.session.prefetch(soon); }));
          },
          nb::kw_only(), nb::arg("priority") = "soon",
          "Begins the lookups of the current chunk in every layer; lookup and apply take what has "
          "come.");
}

}  // namespace

nb::object make_session(std::shared_ptr<OpenModel> model) {
  return nb::cast(std::make_unique<Timeline>(std::move(model)));
}

void add_session(nb::module_& module) {
  nb::class_<Timeline> session(
      module, "Session",
      "One sequence of tokens: the current chunk, and the look-back before it. Any chunking, "
      "rollback or fork gives exactly what one whole prefill gives. One thread at a time.");
  add_steps(session);
  session.def("copy", &copy, "A fork, or a snapshot to return to.")
      .def("__copy__", &copy)
      .def_prop_ro("position", counted(&Session::position), "Committed tokens so far.")
      .def("__len__", counted(&Session::length), "Tokens of the current chunk.")
      .def("keys", &keys, nb::arg("layer"), "uint64 [length, orders] of the current chunk.")
      .def("rows", &rows, nb::arg("layer"),
           "int64 [length, columns]: row ids of the current chunk in the whole table.")
      .def("lookup", &lookup, nb::arg("layer"), nb::kw_only(), nb::arg("out") = nb::none(),
           nb::arg("dtype") = nb::none(),
           "Rows of the current chunk [length, columns, width]; out and dtype as in Model.lookup.")
      .def("apply", &apply, nb::arg("layer"), nb::arg("hidden"), nb::kw_only(),
           nb::arg("rounding") = "reference", nb::arg("gates") = nb::none(),
           "Adds the gated memory of the current chunk to hidden [length, copies, hidden_dim], in "
           "place: float32, bfloat16, or uint16 with bfloat16 bits. Masked tokens keep their "
           "bits.\n\nrounding: \"reference\" (to bfloat16 where the reference does) or \"none\".\n"
           "gates: float32 [length, copies], receives the gate values.");
}

}  // namespace engram::python
