# Finds the headers for compiling operators: OPBRIDGE_ONNXRUNTIME_INCLUDE_DIR and OPBRIDGE_TORCH_DIR. This
# file is in cmake/ of the source tree, or beside OpbridgeOperators.cmake of an installed opbridge.

# ONNX Runtime is opened at run time. The build needs only its C API header, which no wheel ships.
find_path(OPBRIDGE_ONNXRUNTIME_INCLUDE_DIR onnxruntime_c_api.h
          HINTS ${CMAKE_CURRENT_LIST_DIR}/sdk ${CMAKE_CURRENT_LIST_DIR}/../build/deps/onnxruntime/usr/include
          PATH_SUFFIXES onnxruntime onnxruntime/core/session
          DOC "Folder that holds onnxruntime_c_api.h")
if(NOT OPBRIDGE_ONNXRUNTIME_INCLUDE_DIR)
  message(FATAL_ERROR "onnxruntime_c_api.h not found: install libonnxruntime-dev, or run "
                      "tools/fetch_onnxruntime_headers.sh (no root needed), or set OPBRIDGE_ONNXRUNTIME_INCLUDE_DIR")
endif()

# Torch's headers come from the installed torch, which is found without importing it. -I ignores pip's
# isolated build environment, so that `pip install .` uses the same torch and never downloads another.
if(NOT DEFINED OPBRIDGE_TORCH_DIR)
  if(NOT Python_EXECUTABLE)
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  endif()
  execute_process(
    COMMAND ${Python_EXECUTABLE} -I -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
    OUTPUT_VARIABLE torch_dir COMMAND_ERROR_IS_FATAL ANY)
  set(OPBRIDGE_TORCH_DIR "${torch_dir}" CACHE PATH "Folder of the installed torch package; empty builds without torch")
endif()
if(SKBUILD AND NOT OPBRIDGE_TORCH_DIR)
  message(FATAL_ERROR "the Python package needs operators for PyTorch: install torch into ${Python_EXECUTABLE}'s "
                      "environment, or set OPBRIDGE_TORCH_DIR to the folder of a torch package")
endif()
