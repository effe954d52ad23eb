// ModelOptions as EngineOptions.
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engram/row_store.hpp"

#include "bindings.hpp"

namespace engram::python {
namespace {

std::string text_of(const nb::object& options, const char* name) {
  return str_of(options.attr(name));
}

std::string path_or_empty(const nb::object& options, const char* name) {
  const nb::object path = options.attr(name);
  return path.is_none() ? std::string() : path_of(path);
}

// "mmap", "ram", "direct", "auto" or "shared:NAME".
void read_tier(const nb::object& options, StoreOptions& store) {
  const std::string tier = text_of(options, "tier");
  constexpr std::string_view shared = "shared:";
  if (tier.starts_with(shared)) {
    store.tier = Tier::shared;
    store.shared.name = tier.substr(shared.size());
    store.shared.wait = std::chrono::milliseconds(
        static_cast<std::int64_t>(nb::cast<double>(options.attr("shared_wait")) * 1e3));
    return;
  }
  constexpr Named<Tier> names[] = {{"mmap", Tier::mmap},
                                   {"ram", Tier::ram},
                                   {"direct", Tier::direct},
                                   {"auto", Tier::automatic},
                                   {"shared:NAME", Tier::shared}};
  store.tier = by_name(tier, "tier", names);
}

void read_store(const nb::object& options, StoreOptions& store) {
  constexpr Named<ReadMethod> methods[] = {{"auto", ReadMethod::automatic},
                                           {"uring", ReadMethod::uring},
                                           {"readahead", ReadMethod::readahead},
                                           {"threads", ReadMethod::threads}};
  constexpr Named<HugePages> pages[] = {{"transparent", HugePages::transparent},
                                        {"2m", HugePages::reserved_2m},
                                        {"1g", HugePages::reserved_1g}};
  constexpr Named<NumaPolicy> numa[] = {{"local", NumaPolicy::local},
                                        {"interleave", NumaPolicy::interleave},
                                        {"copies", NumaPolicy::copies}};
  read_tier(options, store);
  const nb::object threads = options.attr("threads");
  store.threads = threads.is_none()
                      ? static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))
                      : nb::cast<int>(threads);
  store.read_method = by_name(text_of(options, "read_method"), "read_method", methods);
  store.resident_scales = nb::cast<bool>(options.attr("resident_scales"));
  store.ram.pages = by_name(text_of(options, "pages"), "pages", pages);
  store.ram.numa = by_name(text_of(options, "numa"), "numa", numa);
  store.ram.lock = nb::cast<bool>(options.attr("lock"));
  store.ram.serve_while_loading = nb::cast<bool>(options.attr("serve_while_loading"));
}

}  // namespace

Partition partition_by_name(const std::string& name, const char* argument) {
  constexpr Named<Partition> names[] = {{"rows", Partition::rows},
                                        {"heads", Partition::heads},
                                        {"strided", Partition::strided},
                                        {"layer-order", Partition::layer_order}};
  return by_name(name, argument, names);
}

EngineOptions engine_options(const nb::object& options) {
  constexpr Named<Load> loads[] = {
      {"gates", Load::gates}, {"rows", Load::rows}, {"addresses", Load::addresses}};
  constexpr Named<NanPolicy> nans[] = {{"propagate", NanPolicy::propagate},
                                       {"reject", NanPolicy::reject}};
  EngineOptions result;
  result.load = by_name(text_of(options, "load"), "load", loads);
  read_store(options, result.store);
  result.cache_bytes = nb::cast<std::uint64_t>(options.attr("cache_bytes"));
  result.nan_policy = by_name(text_of(options, "nan"), "nan", nans);
  result.checkpoint.allow_spare_rows = nb::cast<bool>(options.attr("allow_spare_rows"));
  const nb::object codec = options.attr("codec");
  if (!codec.is_none()) {
    result.checkpoint.declared_format =
        value_of(row_format_from_name(nb::cast<std::string>(codec)));
  }
  result.tokenizer_path = path_or_empty(options, "tokenizer");
  if (!options.attr("token_map_sha256").is_none()) {
    result.token_map_sha256 = text_of(options, "token_map_sha256");
  }
  for (const nb::handle pair : options.attr("resident_pairs")) {
    const auto [layer, order] = nb::cast<std::pair<std::int64_t, int>>(pair);
    result.resident.push_back({layer, order});
  }
  return result;
}

}  // namespace engram::python
