# Installs the library, then builds and runs a consumer through find_package and through pkg-config.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${output}")
  endif()
endfunction()

set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${prefix} ${WORK}/consumer)
if(KIND STREQUAL STATIC)
  run(${CMAKE_COMMAND} --install ${BUILT} --prefix ${prefix})
else()
  # What is tested is what the library exports, which no optimisation changes. A compiler cache only
  # slows precompiled headers down.
  unset(ENV{CMAKE_CXX_COMPILER_LAUNCHER})
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja -DBUILD_SHARED_LIBS=ON -DENGRAM_CLI=OFF
      -DENGRAM_PRECOMPILE=ON -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Debug
      -DCMAKE_INSTALL_PREFIX=${prefix})
  run(${CMAKE_COMMAND} --build ${WORK}/build --target install)
endif()
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${WORK}/consumer -G Ninja
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)

# The C consumer's rows are the command line's.
file(REMOVE_RECURSE ${WORK}/model)
run(${CLI} make-model ${WORK}/model --tokenizer ${SOURCE}/data/demo-tokenizer.json)
run(${WORK}/consumer/consumer ${WORK}/model)
run(${WORK}/consumer/c_consumer ${WORK}/model ${WORK}/rows.bin)
run(${WORK}/consumer/decode_loop ${WORK}/model)
run(${WORK}/consumer/batch_lookup ${WORK}/model)
run(${WORK}/consumer/host)
run(${CLI} lookup ${WORK}/model --ids 5,6,7,8 --layer 1 --format raw --output ${WORK}/rows.npy)
run(cmp --ignore-initial=128:0 ${WORK}/rows.npy ${WORK}/rows.bin)
if(KIND STREQUAL SHARED)
  file(GLOB_RECURSE library ${prefix}/libengram.so)
  run(${PYTHON} ${SOURCE}/tests/policy/abi.py ${NM} ${library})
endif()

set(ENV{PKG_CONFIG_PATH} ${prefix}/lib/pkgconfig:${prefix}/lib/x86_64-linux-gnu/pkgconfig)
set(mode "")
if(KIND STREQUAL STATIC)
  set(mode --static)
endif()
execute_process(COMMAND pkg-config ${mode} --cflags --libs engram OUTPUT_VARIABLE flags
                RESULT_VARIABLE status ERROR_VARIABLE error)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "pkg-config: ${error}")
endif()
separate_arguments(flags UNIX_COMMAND "${flags}")
run(${COMPILER} -std=c++20 ${SOURCE}/tests/consumer/main.cpp -o ${WORK}/with_pkg_config ${flags}
    -Wl,-rpath,${prefix}/lib)
run(${WORK}/with_pkg_config)
