# Installs the wheel that consumer.WHEEL has built beside the hosts, and runs their tests.
if(NOT EXISTS ${VENV}/ready)
  message("skipped: ${VENV} is not there: scripts/setup --test makes it where a package index answers")
  return()
endif()
file(GLOB wheel ${WHEEL}/libengram-*.whl)
foreach(command
    "-m;pip;install;--quiet;--disable-pip-version-check;--no-deps;--force-reinstall;${wheel}"
    "-m;pytest;-q;-rs;-p;no:cacheprovider;${TESTS}")
  execute_process(COMMAND ${VENV}/bin/python ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
