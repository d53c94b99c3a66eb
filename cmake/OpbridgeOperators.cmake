# opbridge_add_operators(my_ops SOURCES my_add.cc my_add.cu …
#                        [LINK_LIBRARIES …] [COMPILE_OPTIONS …] [OUTPUT_DIRECTORY folder])
#
# Builds operators written against opbridge/operator.h into two modules: libmy_ops_torch.so, which PyTorch loads
# (torch.ops.load_library, or opbridge.load_operators, which adds autograd and symbolic shapes), and libmy_ops_ort.so,
# which ONNX Runtime loads (SessionOptions.register_custom_ops_library). The targets are my_ops_torch and my_ops_ort.
#
# .cu files, with the .cuda kernels that call them, are skipped if CMake finds no CUDA compiler. They are compiled for
# CMAKE_CUDA_ARCHITECTURES, by default every major one that the compiler knows. The libraries also load without CUDA:
# the CUDA runtime is linked into them, and finds the driver when a kernel runs.
#
# OPBRIDGE_TORCH_DIR is the folder of the torch package; if it is empty, the first module is skipped.

include(${CMAKE_CURRENT_LIST_DIR}/OpbridgeHosts.cmake)

if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/sdk)
  set(OPBRIDGE_SDK_DIR ${CMAKE_CURRENT_LIST_DIR}/sdk)
  find_path(OPBRIDGE_SDK_INCLUDE_DIR opbridge/operator.h
            HINTS ${CMAKE_CURRENT_LIST_DIR}/../include ${CMAKE_CURRENT_LIST_DIR}/../../../include
                  ${CMAKE_CURRENT_LIST_DIR}/../../../../include
            REQUIRED)
else()
  set(OPBRIDGE_SDK_DIR ${CMAKE_CURRENT_LIST_DIR}/../operators/sdk)
  set(OPBRIDGE_SDK_INCLUDE_DIR ${CMAKE_CURRENT_LIST_DIR}/../include)
endif()

# Settings that this file and opbridge.build share: the sources of the SDK; integers that wrap around in kernels, as in
# PyTorch; no symbols that GCC merges across libraries (each has its own table of operators); and the first release of
# PyTorch, 2.10, with everything that the adapter calls.
file(READ ${OPBRIDGE_SDK_DIR}/build.json sdk)
foreach(key sources compile_options gnu_compile_options)
  set(OPBRIDGE_SDK_${key})
  string(JSON count LENGTH ${sdk} ${key})
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON item GET ${sdk} ${key} ${i})
    list(APPEND OPBRIDGE_SDK_${key} ${item})
  endforeach()
endforeach()
string(JSON OPBRIDGE_SDK_torch_target_version GET ${sdk} torch_target_version)
list(TRANSFORM OPBRIDGE_SDK_sources PREPEND ${OPBRIDGE_SDK_DIR}/)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${OPBRIDGE_SDK_DIR}/build.json)

# A macro, because a language can only be enabled outside functions.
macro(opbridge_add_operators)
  if("${ARGN}" MATCHES "\\.cu(;|$)" AND NOT CMAKE_CUDA_COMPILER_LOADED)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
        set(CMAKE_CUDA_ARCHITECTURES all-major)
      endif()
      enable_language(CUDA)
    endif()
  endif()
  _opbridge_add_operators(${ARGN})
endmacro()

# Each library has its own table of operators, so its symbols must be hidden, or they would be merged with those of
# another library in the process.
function(_opbridge_set_compile_options target)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target}
    PUBLIC "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:${OPBRIDGE_SDK_gnu_compile_options}>"
    PRIVATE "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:${OPBRIDGE_SDK_compile_options}>")
  target_include_directories(${target} PUBLIC ${OPBRIDGE_SDK_INCLUDE_DIR} PRIVATE ${OPBRIDGE_SDK_DIR})
endfunction()

# The objects of the SDK, which each library contains: opbridge_sdk, and opbridge_sdk_HOST for a host.
function(_opbridge_add_sdk)
  if(TARGET opbridge_sdk)
    return()
  endif()
  add_library(opbridge_sdk OBJECT ${OPBRIDGE_SDK_sources})
  add_library(opbridge_sdk_ort OBJECT ${OPBRIDGE_SDK_DIR}/ort_adapter.cc)
  target_include_directories(opbridge_sdk_ort SYSTEM PRIVATE ${OPBRIDGE_ONNXRUNTIME_INCLUDE_DIR})
  set(targets opbridge_sdk opbridge_sdk_ort)
  if(OPBRIDGE_TORCH_DIR)
    add_library(opbridge_sdk_torch OBJECT ${OPBRIDGE_SDK_DIR}/torch_adapter.cc)
    target_compile_definitions(opbridge_sdk_torch PRIVATE TORCH_TARGET_VERSION=${OPBRIDGE_SDK_torch_target_version})
    target_include_directories(opbridge_sdk_torch SYSTEM PRIVATE ${OPBRIDGE_TORCH_DIR}/include)
    list(APPEND targets opbridge_sdk_torch)
  endif()
  foreach(target IN LISTS targets)
    _opbridge_set_compile_options(${target})
  endforeach()
endfunction()

function(_opbridge_add_operators name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_DIRECTORY" "SOURCES;LINK_LIBRARIES;COMPILE_OPTIONS")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "opbridge_add_operators(${name} SOURCES file.cc …): wrong arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()

  set(cuda_sources ${arg_SOURCES})
  list(FILTER cuda_sources INCLUDE REGEX "\\.cu$")
  list(REMOVE_ITEM arg_SOURCES ${cuda_sources})
  if(cuda_sources AND NOT CMAKE_CUDA_COMPILER)
    message(STATUS "${name}: no CUDA compiler, so without CUDA kernels (${cuda_sources})")
    set(cuda_sources)
  endif()

  _opbridge_add_sdk()
  # Compiled once for both hosts.
  add_library(${name}_objects OBJECT ${arg_SOURCES})
  _opbridge_set_compile_options(${name}_objects)
  target_compile_options(${name}_objects PRIVATE "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:${arg_COMPILE_OPTIONS}>")
  target_link_libraries(${name}_objects PRIVATE ${arg_LINK_LIBRARIES})

  if(cuda_sources)
    target_sources(${name}_objects PRIVATE ${cuda_sources} ${OPBRIDGE_SDK_DIR}/cuda_runtime.cu)
    set_target_properties(${name}_objects PROPERTIES CUDA_VISIBILITY_PRESET hidden)
    target_compile_definitions(${name}_objects PRIVATE OPBRIDGE_WITH_CUDA)
  endif()

  set(hosts ort)
  if(OPBRIDGE_TORCH_DIR)
    list(APPEND hosts torch)
  endif()
  foreach(host IN LISTS hosts)
    set(target ${name}_${host})
    add_library(${target} MODULE $<TARGET_OBJECTS:opbridge_sdk_${host}>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY Static)
    target_link_libraries(${target} PRIVATE ${name}_objects opbridge_sdk ${arg_LINK_LIBRARIES})
    target_link_options(${target} PRIVATE
      -Wl,--version-script=${OPBRIDGE_SDK_DIR}/exports.map $<$<CONFIG:Release>:-Wl,--strip-all>)
    # The sanitizer's runtime is in the program, so the module has undefined symbols.
    if(NOT OPBRIDGE_SANITIZE)
      target_link_options(${target} PRIVATE -Wl,--no-undefined)
    endif()
    if(arg_OUTPUT_DIRECTORY)
      set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${arg_OUTPUT_DIRECTORY})
    endif()
  endforeach()

  if(OPBRIDGE_TORCH_DIR)
    # The library is found by name in the process that has imported torch; no path to it is stored.
    target_link_options(${name}_torch PRIVATE -Wl,-rpath-link,${OPBRIDGE_TORCH_DIR}/lib)
    target_link_libraries(${name}_torch PRIVATE ${OPBRIDGE_TORCH_DIR}/lib/libtorch_cpu.so ${CMAKE_DL_LIBS})
    set_target_properties(${name}_torch PROPERTIES SKIP_BUILD_RPATH ON)
  endif()
endfunction()
