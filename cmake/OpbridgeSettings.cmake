# Compiler settings for every target of the project.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>)
# GCC's optimizer warns of overflows and uninitialized reads that do not exist, in vectors of variants; the warnings
# change with each release. Its other speculative warnings must not break the build with a new compiler.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(guesses -Wno-stringop-overflow -Wno-maybe-uninitialized -Wno-error=array-bounds -Wno-error=restrict
              -Wno-error=stringop-overread -Wno-error=dangling-pointer -Wno-error=free-nonheap-object)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND guesses -Wno-error=dangling-reference)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${guesses}>")
endif()

set(gnu_release $<AND:$<COMPILE_LANG_AND_ID:CXX,GNU,Clang>,$<CONFIG:Release>>)
set(OPBRIDGE_QUICK_TO_COMPILE $<${gnu_release}:-O1>)
set(OPBRIDGE_QUICK_TO_RUN $<${gnu_release}:-O3>)

# A target whose code runs once for each node of a model, or for each command. Compile time matters more than speed:
# -O1 takes three quarters of the compile time of -O3, and conversions take no longer. The other arguments are those of
# target_precompile_headers, for the headers that most of its files include: reading them takes a third of the compile
# time.
function(opbridge_quick_to_compile target)
  target_compile_options(${target} PRIVATE "${OPBRIDGE_QUICK_TO_COMPILE}")
  if(ARGN)
    target_precompile_headers(${target} ${ARGN})
  endif()
endfunction()

if(OPBRIDGE_SANITIZE)
  add_compile_options(-fsanitize=${OPBRIDGE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${OPBRIDGE_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the source folder, so that clones share the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A compiler cache does not see which parts of a precompiled header a file uses: each change would recompile all
  # files. Clang's precompiled headers were not tried.
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# The folder for built Python modules and operator libraries: a package directory that PYTHONPATH can refer
# to.
if(OPBRIDGE_PYTHON_IN_TREE)
  set(OPBRIDGE_PACKAGE_DIR ${PROJECT_SOURCE_DIR}/python/opbridge)
else()
  set(OPBRIDGE_PACKAGE_DIR ${PROJECT_BINARY_DIR}/python/opbridge)
endif()
set(OPBRIDGE_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
