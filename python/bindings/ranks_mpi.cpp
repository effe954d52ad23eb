// Tables over the ranks of a communicator, in a build with MPI.
#include <mpi.h>

#include <chrono>
#include <cstdint>

#include "engram/mpi.hpp"

#include "bindings.hpp"

namespace engram::python {
namespace {

// Started here, it is ended with the interpreter; where mpi4py has started it, that is mpi4py's.
MPI_Comm world() {
  int ready = 0;
  MPI_Initialized(&ready);
  if (ready == 0) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
      int over = 0;
      MPI_Finalized(&over);
      if (over == 0) MPI_Finalize();
    }));
  }
  return MPI_COMM_WORLD;
}

MPI_Comm communicator_of(nb::handle comm) {
  if (nb::isinstance<nb::str>(comm)) {
    if (nb::cast<std::string>(comm) == "world") return world();
    raise(Code::invalid_argument, "comm: expected a communicator of mpi4py or 'world', found '" +
                                      nb::cast<std::string>(comm) + "'");
  }
  const nb::object address = nb::module_::import_("mpi4py.MPI").attr("_addressof")(comm);
  return *reinterpret_cast<MPI_Comm*>(nb::cast<std::uintptr_t>(address));
}

}  // namespace

bool has_mpi() { return true; }

OpenStores ranks_of(nb::handle comm, const nb::object& options) {
  if (comm.is_none()) return {};
  constexpr Named<Exchange> exchanges[] = {{"packed", Exchange::packed},
                                           {"reduced", Exchange::reduced}};
  ShardedOptions sharded;
  sharded.by = partition_by_name(str_of(options.attr("partition")), "partition");
  sharded.exchange = by_name(str_of(options.attr("exchange")), "exchange", exchanges);
  sharded.timeout = std::chrono::milliseconds(
      static_cast<std::int64_t>(nb::cast<double>(options.attr("rank_timeout")) * 1e3));
  return sharded_stores(communicator_of(comm), sharded);
}

}  // namespace engram::python
