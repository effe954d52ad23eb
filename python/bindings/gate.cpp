// Gate: rows to residual, without a session.
#include "engram/gate.hpp"

#include <bit>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"

namespace engram::python {

Rounding rounding_by_name(const std::string& name) {
  constexpr Named<Rounding> names[] = {{"reference", Rounding::reference},
                                       {"none", Rounding::none}};
  return by_name(name, "rounding", names);
}

namespace {

using nb::dlpack::dtype_code;

// A gate of a model, or of weights that the caller has; either way it keeps what it borrows from.
struct PyGate {
  std::shared_ptr<OpenModel> model;
  std::vector<Array> weights;
  std::optional<Gate> own;
  const Gate* gate = nullptr;
  int threads = 1;
};

std::span<const std::byte> bytes_of(const Array& array) {
  return {array.data(), array.size() * (array.dtype().bits / 8)};
}

std::size_t extent(const Array& array, std::size_t axis, const char* expected) {
  if (array.shape().size() != 2) array.refuse(expected);
  return array.shape()[axis];
}

// wkv [(copies + 1) * hidden_dim, embedding_dim]: E4M3 as uint8 with wkv_scale, bfloat16, float32.
std::unique_ptr<PyGate> from_weights(nb::handle wkv, nb::handle q_weight, nb::handle k_weight,
                                     double norm_eps, nb::handle wkv_scale, int threads) {
  auto self = std::make_unique<PyGate>();
  self->threads = threads;
  const char* matrix = "[(copies + 1) * hidden_dim, embedding_dim]";
  self->weights.push_back(Array::input(wkv, "wkv"));
  self->weights.push_back(Array::input(q_weight, "q_weight"));
  self->weights.push_back(Array::input(k_weight, "k_weight"));
  if (!wkv_scale.is_none()) self->weights.push_back(Array::input(wkv_scale, "wkv_scale"));
  const Array& w = self->weights[0];
  const Array& q = self->weights[1];
  const Array& k = self->weights[2];
  const bool wide = q.is(dtype_code::Float, 32);
  if (!wide && !q.is_bf16()) q.refuse("bfloat16, uint16 (bfloat16 bits) or float32");
  if (k.is(dtype_code::Float, 32) != wide || k.shape() != q.shape() || (!wide && !k.is_bf16())) {
    k.refuse("the type of q_weight and " + shape_text(q.shape()));
  }
  const bool scaled = !wkv_scale.is_none();
  if (scaled ? w.dtype().bits != 8 : wide ? !w.is(dtype_code::Float, 32) : !w.is_bf16()) {
    w.refuse(scaled ? "uint8 (E4M3), since wkv_scale is given" : "the type of q_weight");
  }
  const GateShape shape = {extent(q, 0, "[copies, hidden_dim]"),
                           extent(q, 1, "[copies, hidden_dim]"), extent(w, 1, matrix)};
  if (extent(w, 0, matrix) != shape.wkv_rows()) {
    w.refuse("[" + std::to_string(shape.wkv_rows()) + ", embedding_dim]");
  }
  const GateTensors tensors = {bytes_of(w),
                               scaled ? bytes_of(self->weights[3]) : std::span<const std::byte>(),
                               bytes_of(q), bytes_of(k), wide};
  self->own =
      value_of(without_gil([&] { return Gate::create(shape, tensors, norm_eps, threads); }));
  self->gate = &*self->own;
  return self;
}

std::vector<float> widened(std::span<const std::uint16_t> words) {
  std::vector<float> values;
  values.reserve(words.size());
  for (const std::uint16_t word : words) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16));
  }
  return values;
}

// Of values that have been rounded to bfloat16 already.
void narrow(std::span<const float> values, std::span<std::uint16_t> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
  }
}

nb::object apply(PyGate& self, nb::handle embedding, nb::handle hidden, nb::handle mask,
                 const std::string& rounding, nb::handle out, nb::handle gates) {
  const GateShape& shape = self.gate->shape();
  const Array rows = Array::input(embedding, "embedding");
  const std::size_t tokens = rows.shape().empty() ? 0 : rows.shape()[0];
  if (!rows.is_bf16() || rows.size() != tokens * shape.embedding_dim) {
    rows.refuse("bfloat16 or uint16 (bfloat16 bits) [tokens, " +
                std::to_string(shape.embedding_dim) + "]");
  }
  const Rounding rounded = rounding_by_name(rounding);
  const Shape stream_shape = {tokens, shape.copies, shape.hidden_dim};
  const Array from = Array::input(hidden, "hidden");
  check_stream(from, stream_shape, rounded);
  const bool wide = from.is(dtype_code::Float, 32);
  nb::object target =
      out.is_none() ? empty(stream_shape, wide ? "float32" : "uint16") : nb::borrow(out);
  const Array to = Array::output(target, "out");
  check_stream(to, stream_shape, rounded);
  if (to.is(dtype_code::Float, 32) != wide) to.refuse("the type of hidden");
  const Mask masked(mask, tokens);
  const GatesOut gate_values(gates, {tokens, shape.copies});
  check(without_gil([&]() -> Status {
    std::vector<float> stream;  // of bfloat16, updated in place
    if (!wide) stream = widened(from.elements<const std::uint16_t>());
    const std::span<float> result = wide ? to.elements<float>() : std::span<float>(stream);
    const GateInput given = {rows.elements<const std::uint16_t>(),
                             wide ? from.elements<const float>() : std::span<const float>(stream),
                             masked.values(), rounded};
    GateWorkspace workspace;
    ENGRAM_TRY(self.gate->apply(given, result, gate_values.values(), workspace, self.threads));
    if (!wide) narrow(stream, to.elements<std::uint16_t>());
    return {};
  }));
  return target;
}

}  // namespace

nb::object make_gate(std::shared_ptr<OpenModel> model, int table) {
  auto self = std::make_unique<PyGate>();
  self->gate = model->engine.gate(table);
  if (self->gate == nullptr) {
    raise(Code::unavailable, "the model was opened without gates: load=\"rows\" or \"addresses\"");
  }
  self->threads = model->engine.threads();
  self->model = std::move(model);
  return nb::cast(std::move(self));
}

void add_gate(nb::module_& module) {
  nb::class_<PyGate>(module, "Gate",
                     "Projects rows by wkv, gates each residual copy, adds. Immutable; any number "
                     "of threads may apply. Model.gate(layer) gives a model's own.")
      .def(nb::new_(&from_weights), nb::arg("wkv"), nb::arg("q_weight"), nb::arg("k_weight"),
           nb::kw_only(), nb::arg("norm_eps"), nb::arg("wkv_scale") = nb::none(),
           nb::arg("threads") = 1,
           "From weights, which are kept, not copied: wkv [(copies + 1) * hidden_dim, "
           "embedding_dim] bfloat16, float32, or uint8 (E4M3) with wkv_scale uint8 (E8M0) "
           "[rows / 32, embedding_dim / 32]; q_weight and k_weight [copies, hidden_dim].")
      .def("apply", &apply, nb::arg("embedding"), nb::arg("hidden"), nb::kw_only(),
           nb::arg("mask") = nb::none(), nb::arg("rounding") = "reference",
           nb::arg("out") = nb::none(), nb::arg("gates") = nb::none(),
           "hidden + gate * value, [tokens, copies, hidden_dim], as a new array or in `out` (which "
           "may be `hidden`).\n\nembedding: the decoded rows, bfloat16 [tokens, columns, head_dim] "
           "or flat; hidden: float32 or bfloat16; mask [tokens]: 0 leaves a token alone;\n"
           "gates: float32 [tokens, copies], receives the gate values.")
      .def_prop_ro("copies", [](const PyGate& self) { return self.gate->shape().copies; })
      .def_prop_ro("hidden_dim", [](const PyGate& self) { return self.gate->shape().hidden_dim; })
      .def_prop_ro("embedding_dim",
                   [](const PyGate& self) { return self.gate->shape().embedding_dim; });
}

}  // namespace engram::python
