// Model and Ticket: open, look up by keys or row ids, prefetch, statistics.
#include <nanobind/stl/vector.h>

#include "engram/row_store.hpp"

#include "arrays.hpp"
#include "bindings.hpp"

namespace engram::python {

OpenModel::Workspace::Workspace(OpenModel& model) : model_(model) {
  const std::scoped_lock lock(model.mutex_);
  if (model.idle_.empty()) return;
  workspace_ = std::move(model.idle_.back());
  model.idle_.pop_back();
}

OpenModel::Workspace::~Workspace() {
  const std::scoped_lock lock(model_.mutex_);
  model_.idle_.push_back(std::move(workspace_));
}

const Memory& OpenModel::memory() const {
  if (engine.memory() == nullptr) {
    raise(Code::unavailable, "the model was opened without its tables: load=\"addresses\"");
  }
  return *engine.memory();
}

int OpenModel::table(std::int64_t layer) const {
  return value_of(engine.hasher().spec().table_index(layer));
}

Priority priority_by_name(const std::string& name) {
  constexpr Named<Priority> names[] = {
      {"now", Priority::now}, {"soon", Priority::soon}, {"whenever", Priority::whenever}};
  return by_name(name, "priority", names);
}

std::string path_of(nb::handle path) {
  return nb::cast<std::string>(nb::module_::import_("os").attr("fsdecode")(path));
}

namespace {

// The handle: empty once closed.
class Model {
 public:
  explicit Model(std::shared_ptr<OpenModel> opened) : opened_(std::move(opened)) {}
  const std::shared_ptr<OpenModel>& open() const {
    if (!opened_) raise(Code::invalid_argument, "the model is closed");
    return opened_;
  }
  const Engine& engine() const { return open()->engine; }
  void close() {
    std::shared_ptr<OpenModel> last = std::move(opened_);
    const nb::gil_scoped_release released;  // unmapping tables takes a while
    last.reset();
  }
  bool closed() const { return opened_ == nullptr; }

 private:
  std::shared_ptr<OpenModel> opened_;
};

// A lookup of one layer that has begun.
struct PendingLookup {
  std::shared_ptr<OpenModel> model;
  int table;
  Shape lead;  // of the rows
  Ticket ticket;
  std::atomic<bool> in_use{false};
};

Model open(nb::handle path, nb::object options, nb::object progress, nb::object comm,
           const nb::kwargs& changes) {
  const nb::object merged =
      nb::module_::import_("libengram._options").attr("merge")(options, changes);
  EngineOptions with = engine_options(merged);
  ProgressCall call(std::move(progress));
  with.store.progress = call.progress();
  const std::string directory = path_of(path);
  const OpenStores open_stores = ranks_of(comm, merged);
  auto engine = without_gil([&] { return Engine::open(directory, with, open_stores); });
  call.rethrow();
  return Model(std::make_shared<OpenModel>(value_of(std::move(engine))));
}

// [..., orders] -> [..., columns].
Shape rows_of_keys(const OpenModel& model, const Array& keys) {
  const HashConfig& config = model.engine.hasher().spec().config();
  const auto orders = static_cast<std::size_t>(config.orders());
  if (keys.shape().empty() || keys.shape().back() != orders) {
    keys.refuse("uint64 [..., " + std::to_string(orders) + "]");
  }
  Shape lead = keys.shape();
  lead.back() = static_cast<std::size_t>(config.columns());
  return lead;
}

auto row_bytes_of(const Memory& memory, int table) {
  return [&memory, table](OutputFormat format) { return memory.output_bytes(table, format); };
}

nb::object lookup(const Model& self, std::int64_t layer, nb::handle rows, nb::handle keys,
                  nb::handle out, nb::handle dtype) {
  OpenModel& model = *self.open();
  const Memory& memory = model.memory();
  const int table = model.table(layer);
  if (rows.is_none() == keys.is_none()) {
    raise(Code::invalid_argument, "lookup: give rows or keys, one of them");
  }
  OpenModel::Workspace workspace(model);
  if (!rows.is_none()) {
    const Integers<RowId> ids(rows, "rows");
    const RowsOut to = rows_out(out, dtype, ids.shape(), row_bytes_of(memory, table));
    check(without_gil(
        [&] { return memory.lookup_rows(table, ids.values(), to.output, workspace.get()); }));
    return to.array;
  }
  const Array given = Array::input(keys, "keys");
  const RowsOut to = rows_out(out, dtype, rows_of_keys(model, given), row_bytes_of(memory, table));
  const auto values = key_values(given);
  check(without_gil([&] { return memory.lookup(table, values, to.output, workspace.get()); }));
  return to.array;
}

std::unique_ptr<PendingLookup> prefetch(const Model& self, std::int64_t layer, nb::handle keys,
                                        const std::string& priority) {
  const std::shared_ptr<OpenModel>& model = self.open();
  const Memory& memory = model->memory();
  const int table = model->table(layer);
  const Array given = Array::input(keys, "keys");
  const auto values = key_values(given);
  const Priority soon = priority_by_name(priority);
  auto pending = std::make_unique<PendingLookup>();
  pending->model = model;
  pending->table = table;
  pending->lead = rows_of_keys(*model, given);
  pending->ticket = value_of(without_gil([&] { return memory.prefetch(table, values, soon); }));
  return pending;
}

nb::object wait(PendingLookup& self, nb::handle out, nb::handle dtype) {
  const InUse held(self.in_use, "the ticket");
  const Memory& memory = self.model->memory();
  const RowsOut to = rows_out(out, dtype, self.lead, row_bytes_of(memory, self.table));
  check(without_gil([&] { return memory.wait(self.ticket, to.output); }));
  return to.array;
}

void cancel(PendingLookup& self) {
  const InUse held(self.in_use, "the ticket");
  without_gil([&] { self.ticket.cancel(); });
}

nb::dict stats_of(const TableStats& stats) {
  nb::dict orders;
  for (std::size_t i = 0; i < stats.orders.size(); ++i) {
    nb::dict order;
    order["keys"] = stats.orders[i].keys;
    order["unique"] = stats.orders[i].unique;
    order["hits"] = stats.orders[i].hits;
    orders[nb::int_(i + 2)] = order;
  }
  nb::dict table;
  table["orders"] = orders;
  table["reads"] = stats.reads;
  table["read_bytes"] = stats.read_bytes;
  table["wait_ns"] = stats.wait_ns;
  return table;
}

nb::dict stats(const Model& self) {
  const OpenModel& model = *self.open();
  nb::dict result;
  for (int table = 0; table < model.memory().table_count(); ++table) {
    const std::int64_t layer = model.memory().store(table).source().layer_id;
    result[nb::int_(layer)] = stats_of(model.memory().stats(table));
  }
  return result;
}

nb::dict tier_report(const Model& self) {
  const OpenModel& model = *self.open();
  nb::dict result;
  for (int table = 0; table < model.memory().table_count(); ++table) {
    const StoreReport report = model.memory().store(table).report();
    check(report.loading);
    nb::dict entry;
    entry["tier"] = nb::cast(std::string(tier_name(report.tier)));
    entry["table_bytes"] = report.table_bytes;
    entry["resident_bytes"] = report.resident_bytes;
    entry["huge_bytes"] = report.huge_bytes;
    result[nb::int_(model.memory().store(table).source().layer_id)] = entry;
  }
  return result;
}

void warm(const Model& self, nb::handle path, nb::object progress) {
  const OpenModel& model = *self.open();
  const Memory& memory = model.memory();
  const std::string file = path_of(path);
  ProgressCall call(std::move(progress));
  const Status status = without_gil([&]() -> Status {
    const auto ngrams = read_hot_set(file, model.engine);
    if (!ngrams) return ngrams.error();
    return memory.warm(*ngrams, call.progress());
  });
  call.rethrow();
  check(status);
}

void add_ticket(nb::module_& module) {
  nb::class_<PendingLookup>(module, "Ticket",
                            "A lookup that Model.prefetch has begun: its reads are on their way. "
                            "One thread at a time; dropping it gives it up.")
      .def_prop_ro(
          "pending", [](const PendingLookup& self) { return self.ticket.pending(); },
          "False once waited for or cancelled.")
      .def(
          "ready",
          [](PendingLookup& self) {
            const InUse held(self.in_use, "the ticket");
            return self.ticket.ready();
          },
          "Whether wait would not wait. Never blocks.")
      .def("wait", &wait, nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(),
           "The rows, as Model.lookup gives them; once.")
      .def("cancel", &cancel, "Gives the lookup up.")
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__", [](PendingLookup& self, nb::handle, nb::handle, nb::handle) { cancel(self); },
          nb::arg().none(), nb::arg().none(), nb::arg().none());
}

template <typename Get>
auto geometry(Get get) {
  return [get](const Model& self) { return get(self.engine()); };
}

void add_properties(nb::class_<Model>& model) {
  model
      .def_prop_ro("layer_ids", geometry([](const Engine& engine) {
                     return engine.hasher().spec().config().layer_ids;
                   }))
      .def_prop_ro("orders", geometry([](const Engine& engine) {
                     return engine.hasher().spec().config().orders();
                   }))
      .def_prop_ro("heads", geometry([](const Engine& engine) {
                     return engine.hasher().spec().config().heads;
                   }))
      .def_prop_ro("columns", geometry([](const Engine& engine) {
                     return engine.hasher().spec().config().columns();
                   }),
                   "Rows per token and layer.")
      .def_prop_ro("head_dim", geometry([](const Engine& engine) {
                     return engine.checkpoint().config().head_dim;
                   }),
                   "Numbers per row.")
      .def_prop_ro("copies", geometry([](const Engine& engine) {
                     return engine.checkpoint().config().copies;
                   }),
                   "Residual streams.")
      .def_prop_ro("hidden_dim", geometry([](const Engine& engine) {
                     return engine.checkpoint().config().hidden_dim;
                   }),
                   "Of one stream.")
      .def_prop_ro("norm_eps", geometry([](const Engine& engine) {
                     return engine.checkpoint().config().norm_eps;
                   }))
      .def_prop_ro("tier_reason",
                   geometry([](const Engine& engine) { return engine.tier_reason(); }),
                   "Why tier=\"auto\" chose what it did; empty otherwise.")
      .def_prop_ro(
          "cache_capacity",
          [](const Model& self) { return self.open()->memory().cache_capacity(); },
          "N-grams that the cache can hold.")
      .def_prop_ro("token_map", geometry([](const Engine& engine) { return engine.token_map(); }))
      .def_prop_ro("hasher", geometry([](const Engine& engine) { return make_hasher(engine); }));
}

}  // namespace

void add_model(nb::module_& module) {
  add_ticket(module);
  nb::class_<Model> model(module, "Model",
                          "A loaded model directory, immutable. Any number of threads may look up "
                          "at once. A context manager; sessions, gates and tickets made from it "
                          "keep its tables until they are gone.");
  model
      .def_static("open", &open, nb::arg("path"), nb::arg("options") = nb::none(), nb::kw_only(),
                  nb::arg("progress") = nb::none(), nb::arg("comm") = nb::none(),
                  nb::arg("changes"),
                  "Opens a model directory or GGUF file. Everything is checked before anything is "
                  "served.\n\noptions: ModelOptions, or its fields as keywords, or both.\n"
                  "progress: callable(done, total) in bytes, while tables are loaded.\n"
                  "comm: a communicator of mpi4py, or \"world\": the tables are cut over its ranks "
                  "(a build with MPI). Lookups are then collective: every rank makes the same "
                  "sequence of them.")
      .def("close", &Model::close)
      .def_prop_ro("closed", &Model::closed)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def(
          "__exit__", [](Model& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none())
      .def("lookup", &lookup, nb::arg("layer"), nb::kw_only(), nb::arg("rows") = nb::none(),
           nb::arg("keys") = nb::none(), nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none(),
           "Rows of one layer. Equal ones are read and decoded once.\n\n"
           "rows: int64 or int32, any shape, ids in the whole table -> rows.shape + [width];\n"
           "keys: uint64 [..., orders] -> [..., columns, width].\n"
           "dtype: \"bf16\" (as uint16 bit patterns; the default), \"f16\", \"f32\", or \"raw\" "
           "(the stored bytes).\nout: an array of that shape to fill and return (NumPy, torch, "
           "...); rows may lie at a stride. width is head_dim, or the bytes of a stored row.")
      .def("prefetch", &prefetch, nb::arg("layer"), nb::arg("keys"), nb::kw_only(),
           nb::arg("priority") = "soon",
           "Begins a lookup by keys and returns a Ticket at once; begin every layer before waiting "
           "for the first.\n\npriority: \"now\", \"soon\" (in this step) or \"whenever\" (drafts).")
      .def(
          "session", [](const Model& self) { return make_session(self.open()); },
          "A new token timeline.")
      .def(
          "gate",
          [](const Model& self, std::int64_t layer) {
            return make_gate(self.open(), self.open()->table(layer));
          },
          nb::arg("layer"), "The Gate of a layer.")
      .def(
          "row_count",
          [](const Model& self, std::int64_t layer) {
            const HashSpec& spec = self.engine().hasher().spec();
            return spec.layers()[static_cast<std::size_t>(self.open()->table(layer))].row_count;
          },
          nb::arg("layer"))
      .def("stats", &stats,
           "{layer: {\"orders\": {order: {keys, unique, hits}}, reads, read_bytes, wait_ns}} since "
           "the model was opened.")
      .def("tiers", &tier_report,
           "{layer: {tier, table_bytes, resident_bytes, huge_bytes}}: where rows lie by now.")
      .def("warm", &warm, nb::arg("path"), nb::kw_only(), nb::arg("progress") = nb::none(),
           "Fills the cache with the n-grams of a file that `engram profile` wrote.");
  add_properties(model);
}

}  // namespace engram::python
