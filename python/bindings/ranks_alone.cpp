// A build without MPI: one process.
#include "bindings.hpp"

namespace engram::python {

bool has_mpi() { return false; }

OpenStores ranks_of(nb::handle comm, const nb::object&) {
  if (comm.is_none()) return {};
  raise(Code::unsupported,
        "comm: this package was built without MPI (pip install . "
        "--config-settings=cmake.define.ENGRAM_MPI=ON)");
}

}  // namespace engram::python
