// What writes, compares and checks model directories, and shared memory.
#include "engram/convert.hpp"

#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "engram/row_store.hpp"

#include "bindings.hpp"

namespace engram::python {
namespace {

// Runs `work(progress)` without the interpreter lock; the first exception of the callable wins.
template <typename Work>
auto with_progress(nb::object progress, Work&& work) {
  ProgressCall call(std::move(progress));
  auto result = without_gil([&] { return work(call.progress()); });
  call.rethrow();
  return result;
}

Checkpoint open_checkpoint(nb::handle path) {
  const std::string directory = path_of(path);
  return value_of(without_gil([&] { return Checkpoint::open(directory); }));
}

void add_writers(nb::module_& module) {
  module.def(
      "convert",
      [](nb::handle source, nb::handle destination, const std::string& to,
         std::vector<std::int64_t> layers, int threads, bool tables_only, bool resume,
         nb::object progress) {
        ConvertOptions options;
        options.to = to;
        options.layers = std::move(layers);
        options.threads = threads;
        options.tables_only = tables_only;
        options.resume = resume;
        const Checkpoint from = open_checkpoint(source);
        const std::string path = path_of(destination);
        check(with_progress(std::move(progress), [&](Progress call) {
          options.progress = std::move(call);
          return engram::convert(from, path, options);
        }));
      },
      nb::arg("source"), nb::arg("destination"), nb::kw_only(), nb::arg("to"),
      nb::arg("layers") = std::vector<std::int64_t>(), nb::arg("threads") = 1,
      nb::arg("tables_only") = false, nb::arg("resume") = false, nb::arg("progress") = nb::none(),
      "Converts the tables of a model. to: \"fp8\", \"row264\", \"mxfp8\", \"mxfp4\", \"bf16\", "
      "\"int8\", \"int4-e4m3\", \"lloyd4\", \"q8_0\", \"mxfp4-gguf\", \"f16\", \"f32\", \"paged\" "
      "or "
      "\"paged:CODEC\".\nprogress: callable(done, total) in bytes. The destination is seen "
      "complete "
      "or not at all; resume goes on with what an interrupted conversion left.");
  module.def(
      "shard",
      [](nb::handle source, nb::handle destination, std::int64_t world, const std::string& by,
         int threads, bool tables_only, nb::object progress) {
        const Checkpoint from = open_checkpoint(source);
        const std::string to = path_of(destination);
        ShardOptions options;
        options.world = world;
        options.by = partition_by_name(by, "by");
        options.threads = threads;
        options.tables_only = tables_only;
        check(with_progress(std::move(progress), [&](Progress call) {
          options.progress = std::move(call);
          return engram::shard(from, to, options);
        }));
      },
      nb::arg("source"), nb::arg("destination"), nb::kw_only(), nb::arg("world"),
      nb::arg("by") = "strided", nb::arg("threads") = 1, nb::arg("tables_only") = false,
      nb::arg("progress") = nb::none(),
      "Cuts the tables over `world` ranks: destination/rank-00000 and so on, each a model "
      "directory "
      "of its own. by: \"rows\", \"heads\", \"strided\" or \"layer-order\".");
  module.def(
      "make_model",
      [](nb::handle directory, nb::handle tokenizer, std::int64_t engram_vocab_size,
         std::vector<std::int64_t> layer_ids, std::int64_t hidden_dim, std::int64_t copies,
         std::uint64_t seed, bool bf16) {
        ModelRecipe recipe;
        recipe.tokenizer_path = path_of(tokenizer);
        recipe.engram_vocab_size = engram_vocab_size;
        recipe.layer_ids = std::move(layer_ids);
        recipe.hidden_dim = hidden_dim;
        recipe.copies = copies;
        recipe.seed = seed;
        recipe.bf16 = bf16;
        const std::string to = path_of(directory);
        check(without_gil([&] { return engram::make_model(to, recipe); }));
      },
      nb::arg("directory"), nb::kw_only(), nb::arg("tokenizer"),
      nb::arg("engram_vocab_size") = 1000, nb::arg("layer_ids") = std::vector<std::int64_t>{1, 14},
      nb::arg("hidden_dim") = 256, nb::arg("copies") = 4, nb::arg("seed") = 0,
      nb::arg("bf16") = false,
      "Writes a procedural model in the official layout, for tests and demos: every byte follows "
      "from the seed.");
}

void add_compare(nb::module_& module) {
  nb::class_<Distance>(module, "Distance", "How far decoded values lie apart; A is the reference.")
      .def_ro("rows", &Distance::rows)
      .def_ro("relative_l2", &Distance::relative_l2, "|A - B| / |A|.")
      .def_ro("cosine", &Distance::cosine, "Mean over rows.")
      .def_ro("worst_cosine", &Distance::worst_cosine)
      .def_ro("max_abs", &Distance::max_abs)
      .def_ro("exact_share", &Distance::exact_share, "Of values that are equal.");
  nb::class_<TableComparison>(module, "TableComparison", "What compare found of one table.")
      .def_ro("layer", &TableComparison::layer_id)
      .def_ro("all", &TableComparison::all)
      .def_ro("columns", &TableComparison::columns, "Distances by order, then head.")
      .def_ro("scales_a", &TableComparison::scales_a, "Counts of E8M0 bytes, or empty.")
      .def_ro("scales_b", &TableComparison::scales_b)
      .def_ro("finding", &TableComparison::finding, "What is wrong, where the numbers say it.");
  module.def(
      "compare",
      [](nb::handle a, nb::handle b, std::uint64_t rows, int threads, nb::object progress) {
        const Checkpoint left = open_checkpoint(a);
        const Checkpoint right = open_checkpoint(b);
        return value_of(with_progress(std::move(progress), [&](Progress call) {
          return engram::compare(left, right, CompareOptions{rows, threads, std::move(call)});
        }));
      },
      nb::arg("a"), nb::arg("b"), nb::kw_only(), nb::arg("rows") = 24'000, nb::arg("threads") = 1,
      nb::arg("progress") = nb::none(),
      "Compares the tables of two models of equal geometry -> [TableComparison]. rows: of each "
      "table, spread over its columns; 0: every row.");
}

void add_checks(nb::module_& module) {
  nb::class_<TableCheck>(module, "TableCheck", "What check found of one table.")
      .def_ro("layer", &TableCheck::layer_id)
      .def_ro("rows", &TableCheck::rows, "Read.")
      .def_ro("scale_min", &TableCheck::scale_min, "E8M0 bytes; -1 for other scales.")
      .def_ro("scale_max", &TableCheck::scale_max);
  module.def(
      "check",
      [](nb::handle path, const std::string& level, int threads, nb::object progress) {
        constexpr Named<CheckLevel> levels[] = {{"headers", CheckLevel::headers},
                                                {"sample", CheckLevel::sample},
                                                {"full", CheckLevel::full}};
        const CheckLevel how = by_name(level, "level", levels);
        const Checkpoint model = open_checkpoint(path);
        return value_of(with_progress(std::move(progress), [&](const Progress& call) {
          return check_tables(model, how, threads, call);
        }));
      },
      nb::arg("path"), nb::kw_only(), nb::arg("level") = "sample", nb::arg("threads") = 1,
      nb::arg("progress") = nb::none(),
      "Reads rows of every table: page checksums, NaN and infinite values, scales -> [TableCheck]. "
      "level: \"headers\", \"sample\" or \"full\". CorruptError names the first bad row.");
  nb::class_<VerifyReport>(module, "VerifyReport", "What verify compared.")
      .def_ro("against", &VerifyReport::against, "The list of digests.")
      .def_ro("files", &VerifyReport::files)
      .def_ro("bytes", &VerifyReport::bytes);
  module.def(
      "verify",
      [](nb::handle directory, int threads, nb::object progress) {
        const std::string path = path_of(directory);
        return value_of(with_progress(std::move(progress), [&](const Progress& call) {
          return engram::verify(path, threads, call);
        }));
      },
      nb::arg("directory"), nb::kw_only(), nb::arg("threads") = 1, nb::arg("progress") = nb::none(),
      "Reads every file again and compares it with engram-manifest.json or another list that came "
      "along. CorruptError names the first that differs.");
  module.def(
      "write_manifest",
      [](nb::handle directory, int threads, nb::object progress) {
        const std::string path = path_of(directory);
        check(with_progress(std::move(progress), [&](const Progress& call) {
          return engram::write_manifest(path, threads, call);
        }));
      },
      nb::arg("directory"), nb::kw_only(), nb::arg("threads") = 1, nb::arg("progress") = nb::none(),
      "Writes engram-manifest.json: the SHA-256 of every file.");
}

void add_shared(nb::module_& module) {
  module.def(
      "load_shared",
      [](nb::handle path, const std::string& name, int threads, nb::object progress) {
        const Checkpoint model = open_checkpoint(path);
        check(with_progress(std::move(progress), [&](Progress call) {
          StoreOptions options;
          options.threads = threads;
          options.progress = std::move(call);
          return engram::load_shared(model.tables(), name, options);
        }));
      },
      nb::arg("path"), nb::arg("name"), nb::kw_only(), nb::arg("threads") = 1,
      nb::arg("progress") = nb::none(),
      "Fills memory of this host that any process attaches to with tier=\"shared:NAME\"; it stays "
      "until unload_shared.");
  module.def(
      "unload_shared", [](const std::string& name) { check(engram::unload_shared(name)); },
      nb::arg("name"), "Removes the name; processes that have attached keep their rows.");
}

}  // namespace

void add_convert(nb::module_& module) {
  add_writers(module);
  add_compare(module);
  add_checks(module);
  add_shared(module);
}

}  // namespace engram::python
