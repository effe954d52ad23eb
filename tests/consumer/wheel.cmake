# Builds the wheel as pip does, installs it into a fresh virtual environment with NumPy only, and runs
# the tests of the package there.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${output}")
  endif()
  message("${output}")
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${PYTHON} -m venv ${WORK}/venv)
set(pip ${WORK}/venv/bin/pip --disable-pip-version-check --quiet)
# The developer build's compiler and flags, so that a compiler cache has most of it.
set(ENV{CXX} ${COMPILER})
run(${pip} wheel --no-deps ${SOURCE} -w ${WORK}/wheel --config-settings=cmake.define.ENGRAM_DEVELOPER=ON)
file(GLOB wheel ${WORK}/wheel/libengram-*.whl)
file(SIZE ${wheel} bytes)
if(bytes GREATER 5000000)
  message(FATAL_ERROR "${wheel}: ${bytes} bytes, expected less than 5 MB")
endif()
run(${pip} install ${wheel} pytest)
run(${WORK}/venv/bin/python -m pytest -q -rs -p no:cacheprovider ${SOURCE}/tests/libengram)
# The types that editors see, the console script, and nothing heavy on import.
run(${WORK}/venv/bin/engram --version)
run(${WORK}/venv/bin/python -c
    "import pathlib, sys, libengram
assert 'numpy' not in sys.modules
stub = pathlib.Path(libengram.__file__).with_name('_core.pyi').read_text()
assert 'class Model' in stub and 'def hash_batch(' in stub")
