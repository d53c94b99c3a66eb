# The toolchain of tools/wheel.sh: Zig's clang for an older glibc. OPBRIDGE_WHEEL_DIR is the script's folder, with the
# compilers in bin and the libraries in prefix; those of this machine are for a newer glibc.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES OPBRIDGE_WHEEL_DIR)
get_filename_component(CMAKE_SYSTEM_PROCESSOR ${OPBRIDGE_WHEEL_DIR} NAME)
set(CMAKE_C_COMPILER ${OPBRIDGE_WHEEL_DIR}/bin/cc)
set(CMAKE_CXX_COMPILER ${OPBRIDGE_WHEEL_DIR}/bin/c++)
set(CMAKE_PREFIX_PATH ${OPBRIDGE_WHEEL_DIR}/prefix)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# nvcc compiles for the C++ library of GCC, not for Zig's.
set(CMAKE_CUDA_COMPILER NOTFOUND)

# Zig's start files lack __cxa_finalize: an unloaded library leaves the destructors of its static objects registered,
# and the process calls them when it exits. ONNX Runtime unloads a library of operators with its last session.
set(CMAKE_MODULE_LINKER_FLAGS_INIT -Wl,-z,nodelete)
