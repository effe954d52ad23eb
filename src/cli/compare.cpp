// engram compare: how far two tables lie apart, by order and head.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "engram/convert.hpp"

#include "cli/command.hpp"
#include "cli/engine_options.hpp"
#include "cli/terminal.hpp"

namespace engram::cli {
namespace {

struct Options {
  std::string a;
  std::string b;
  CheckpointOptions checkpoint_a;
  CheckpointOptions checkpoint_b;
  CompareOptions compare;
  bool all = false;
  bool json = false;
  double max_relative_l2 = std::numeric_limits<double>::infinity();
  double min_cosine = -1;
  double max_abs = std::numeric_limits<double>::infinity();
  bool exact = false;
};

std::string distance_json(const Distance& distance) {
  return fmt::format(
      R"("rows":{},"relative_l2":{:.9g},"cosine":{:.9g},"worst_cosine":{:.9g},"max_abs":{:.9g},)"
      R"("exact_share":{:.9g})",
      distance.rows, distance.relative_l2, distance.cosine, distance.worst_cosine, distance.max_abs,
      distance.exact_share);
}

// {"120":5,"121":7}, or null where the format has no E8M0 scales.
std::string histogram_json(const std::vector<std::uint64_t>& counts) {
  if (counts.empty()) return "null";
  std::string fields;
  for (std::size_t byte = 0; byte < counts.size(); ++byte) {
    if (counts[byte] == 0) continue;
    fields += fmt::format("{}\"{}\":{}", fields.empty() ? "" : ",", byte, counts[byte]);
  }
  return "{" + fields + "}";
}

void print_json(const TableComparison& table, std::int64_t heads) {
  std::string columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    columns += fmt::format(R"({}{{"order":{},"head":{},{}}})", columns.empty() ? "" : ",",
                           static_cast<std::int64_t>(i) / heads + 2,
                           static_cast<std::int64_t>(i) % heads, distance_json(table.columns[i]));
  }
  fmt::print(R"({{"layer":{},{},"finding":"{}","scales_a":{},"scales_b":{},"columns":[{}]}})"
             "\n",
             table.layer_id, distance_json(table.all), table.finding,
             histogram_json(table.scales_a), histogram_json(table.scales_b), columns);
}

std::string scale_range(const std::vector<std::uint64_t>& counts) {
  std::size_t first = 0;
  std::size_t last = 0;
  for (std::size_t byte = 0; byte < counts.size(); ++byte) {
    if (counts[byte] == 0) continue;
    if (counts[first] == 0) first = byte;
    last = byte;
  }
  return counts.empty() ? "none" : fmt::format("{}..{}", first, last);
}

void print_human(const TableComparison& table, std::int64_t heads) {
  const auto line = [](const std::string& label, const Distance& d) {
    fmt::print("{:<18} {:>10} {:>11.6f} {:>10.7f} {:>10.7f} {:>10.4g} {:>8.2f} %\n", label, d.rows,
               d.relative_l2, d.cosine, d.worst_cosine, d.max_abs, 100 * d.exact_share);
  };
  fmt::print("{:<18} {:>10} {:>11} {:>10} {:>10} {:>10} {:>10}\n", "", "rows", "relative L2",
             "cosine", "worst", "max abs", "exact");
  line(fmt::format("layer {}", table.layer_id), table.all);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i);
    line(fmt::format("  order {} head {}", column / heads + 2, column % heads), table.columns[i]);
  }
  fmt::print("scale bytes        A {}, B {}\n", scale_range(table.scales_a),
             scale_range(table.scales_b));
  if (!table.finding.empty()) fmt::print("finding            {}\n", table.finding);
}

Status judge(const TableComparison& table, const Options& options) {
  const auto exceeded = [&](std::string_view what, double limit, double found) -> Status {
    return Error{Code::corrupt, 0,
                 fmt::format("layer {}: {}: expected {:g}, found {:.9g}{}{}", table.layer_id, what,
                             limit, found, table.finding.empty() ? "" : "; ", table.finding)};
  };
  const Distance& d = table.all;
  if (!(d.relative_l2 <= options.max_relative_l2)) {
    return exceeded("relative L2 at most", options.max_relative_l2, d.relative_l2);
  }
  if (!(d.worst_cosine >= options.min_cosine)) {
    return exceeded("worst cosine at least", options.min_cosine, d.worst_cosine);
  }
  if (!(d.max_abs <= options.max_abs))
    return exceeded("max abs at most", options.max_abs, d.max_abs);
  if (options.exact && d.exact_share != 1) return exceeded("exact share", 1, d.exact_share);
  return {};
}

Status run_compare(Options& options) {
  const auto a = Checkpoint::open(options.a, options.checkpoint_a);
  if (!a) return a.error();
  const auto b = Checkpoint::open(options.b, options.checkpoint_b);
  if (!b) return b.error();
  if (options.all) options.compare.rows = 0;
  options.compare.progress = progress_bar("comparing", Counts::other);
  const auto tables = compare(*a, *b, options.compare);
  if (!tables) return tables.error();
  Status status;
  for (const TableComparison& table : *tables) {
    options.json ? print_json(table, a->config().heads) : print_human(table, a->config().heads);
    if (status) status = judge(table, options);
  }
  return status;
}

}  // namespace

void add_compare(const Command& app) {
  const auto options = std::make_shared<Options>();
  const Command command =
      app.add_subcommand("compare", "How far the tables of two models lie apart");
  command.add_option("A", options->a, "Model directory or GGUF file: the reference").required();
  command.add_option("B", options->b, "The other").required();
  const Option rows = command
                          .add_option("--rows", options->compare.rows,
                                      "Rows of each table, spread over its columns")
                          .range(std::int64_t{1}, std::int64_t{1} << 40)
                          .show_default();
  command.add_flag("--all", options->all, "Every row").excludes(rows);
  command.add_option("--max-rel-l2", options->max_relative_l2, "Fail beyond this relative L2");
  command.add_option("--min-cosine", options->min_cosine, "Fail where a row's cosine is below");
  command.add_option("--max-abs", options->max_abs, "Fail beyond this difference of a value");
  command.add_flag("--exact", options->exact, "Fail unless every value is equal");
  add_threads_option(command, options->compare.threads);
  command.add_flag("--json", options->json, "One JSON object per table");
  add_codec_option(command, "--codec", options->checkpoint_a);
  add_codec_option(command, "--codec-b", options->checkpoint_b);
  command.runs([options] { return run_compare(*options); });
}

}  // namespace engram::cli
