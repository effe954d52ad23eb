// Plans paged tables: one file per layer, which may carry the layer's gate weights too.
#include <fmt/format.h>

#include "engram/table.hpp"

#include "base/error.hpp"
#include "convert/model_plan.hpp"
#include "convert/table_stream.hpp"

namespace engram {
namespace {

PagedDescription describe(const PlanInput& input, std::size_t index) {
  const TableSource& table = input.source.tables()[index];
  PagedDescription description;
  description.layout = input.layout_of(table);
  description.geometry = input.spec.config();
  description.geometry.layer_ids = {table.layer_id};
  description.constants = input.spec.layers()[index];
  description.token_map_sha256 = input.token_map_sha256;
  description.source = input.source_name;
  return description;
}

}  // namespace

Result<ModelPlan> plan_paged_model(const PlanInput& input) {
  ModelPlan plan;
  const auto& tables = input.source.tables();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const TableSource& table = tables[i];
    if (!input.takes(table)) continue;
    const PagedDescription description = describe(input, i);
    if (table.held || table.row_count != description.constants.row_count) {
      return make_error(Code::unsupported,
                        "{}: layer {}: a paged table has exactly the rows of its primes: expected "
                        "{}, found {}",
                        table.weight.path, table.layer_id, description.constants.row_count,
                        table.held_count());
    }
    if (rows_per_page(description.layout) == 0) {
      return make_error(Code::unsupported, "rows of {} bytes do not fit a page of {}",
                        description.layout.row_bytes(), kPageBytes);
    }
    auto rows = TableRows::open(table, description.layout, input.options.mxfp4);
    if (!rows) return std::move(rows).error();
    std::vector<TensorPlan> tensors = {{fmt::format("layers.{}.engram.embed.pages", table.layer_id),
                                        "U8",
                                        {description.page_count(), kPageBytes},
                                        description.page_count() * kPageBytes,
                                        0}};
    std::vector<Stream> streams;
    streams.push_back(
        page_stream(*std::move(rows), description.identity(), 0, input.options.rows_per_chunk));
    if (!input.options.tables_only && !input.source.gates().empty()) {
      ENGRAM_TRY(add_gate(input.source.gates()[i], GateStyle(), tensors, streams));
    }
    SafetensorsPlan layout =
        plan_safetensors(std::move(tensors), description.to_metadata(), kPageBytes);
    plan.files.push_back({fmt::format("engram-layer-{:05}.safetensors", table.layer_id),
                          std::move(layout.header), std::move(layout.tensors), std::move(streams),
                          layout.file_bytes});
  }
  ENGRAM_TRY(add_companions(input, "model.safetensors.index.json", {}, plan));
  return plan;
}

}  // namespace engram
