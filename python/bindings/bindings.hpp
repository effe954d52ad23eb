// The classes behind libengram's handles, and what each file adds to the module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engram/engine.hpp"

#include "errors.hpp"

namespace engram::python {

namespace nb = nanobind;

// An open model and what its callers share. Sessions and tickets hold it, so that closing a model
// never takes rows away under them.
struct OpenModel {
  explicit OpenModel(Engine opened) : engine(std::move(opened)) {}

  const Engine engine;

  // Scratch memory of one lookup, put back at its end.
  class Workspace {
   public:
    explicit Workspace(OpenModel& model);
    ~Workspace();
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    LookupWorkspace& get() { return workspace_; }

   private:
    OpenModel& model_;
    LookupWorkspace workspace_;
  };

  // Code::unavailable where it was opened with load="addresses".
  const Memory& memory() const;
  // Code::not_found names the layers there are.
  int table(std::int64_t layer) const;

 private:
  std::mutex mutex_;
  std::vector<LookupWorkspace> idle_;  // guarded by mutex_
};

// A value by its name in Python; InvalidArgumentError lists the names.
template <typename T>
struct Named {
  const char* name;
  T value;
};
template <typename T, std::size_t N>
T by_name(const std::string& name, const char* argument, const Named<T> (&names)[N]) {
  std::string all;
  for (const Named<T>& known : names) {
    if (name == known.name) return known.value;
    all += (all.empty() ? "" : ", ") + std::string(known.name);
  }
  raise(Code::invalid_argument,
        std::string(argument) + ": expected one of " + all + ", found '" + name + "'");
}

Priority priority_by_name(const std::string& name);
Rounding rounding_by_name(const std::string& name);

// The C++ form of a libengram.ModelOptions.
EngineOptions engine_options(const nb::object& options);

// How a model's stores are opened where its tables are cut over the ranks of `comm`, a communicator
// of mpi4py or "world"; empty for None. The options are a libengram.ModelOptions.
OpenStores ranks_of(nb::handle comm, const nb::object& options);
bool has_mpi();
Partition partition_by_name(const std::string& name, const char* argument);

// A str or os.PathLike.
std::string path_of(nb::handle path);

void add_token_map(nb::module_& module);
void add_hashing(nb::module_& module);
void add_model(nb::module_& module);
void add_session(nb::module_& module);
void add_gate(nb::module_& module);
void add_convert(nb::module_& module);

// What Model makes: declared here so that model.cpp need not know how.
nb::object make_hasher(const Engine& engine);
nb::object make_session(std::shared_ptr<OpenModel> model);
nb::object make_gate(std::shared_ptr<OpenModel> model, int table);

}  // namespace engram::python
