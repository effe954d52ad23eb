// libengram._core: the C++ library as a Python module.
#include <nanobind/nanobind.h>

#include "bindings.hpp"

NB_MODULE(_core, module) {
  module.attr("__version__") = ENGRAM_VERSION;
  module.attr("has_mpi") = engram::python::has_mpi();
  engram::python::add_token_map(module);
  engram::python::add_hashing(module);
  engram::python::add_gate(module);
  engram::python::add_session(module);
  engram::python::add_model(module);
  engram::python::add_convert(module);
}
