# All packages that the build needs. Each is in Debian and Ubuntu; tools/setup.sh installs them.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(simdjson REQUIRED)
find_package(libzip MODULE REQUIRED)
find_package(ZLIB REQUIRED)
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp REQUIRED)
if(OPBRIDGE_BUILD_CLI)
  find_package(CLI11 REQUIRED)
endif()

# The repository's virtual environment has precedence over the machine's Python.
set(venv_python ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(NOT Python_EXECUTABLE AND EXISTS ${venv_python})
  set(Python_EXECUTABLE ${venv_python})
endif()
if(OPBRIDGE_BUILD_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

# The core alone needs neither ONNX Runtime nor torch.
set(OPBRIDGE_NEEDS_HOSTS OFF)
foreach(part CLI PYTHON OPERATORS TESTS FUZZERS)
  if(OPBRIDGE_BUILD_${part})
    set(OPBRIDGE_NEEDS_HOSTS ON)
  endif()
endforeach()
if(OPBRIDGE_NEEDS_HOSTS)
  include(OpbridgeHosts)
endif()
