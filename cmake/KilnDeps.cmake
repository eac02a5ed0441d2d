# SPDX-License-Identifier: Apache-2.0
# Everything Kiln is built from. System packages come from Debian, Halide and oneDNN from the
# pinned wheels that scripts/setup unpacks into KILN_DEPS.
if(NOT EXISTS "${KILN_DEPS}/halide/include/Halide.h")
  message(FATAL_ERROR "KILN_DEPS: no Halide in \"${KILN_DEPS}\"; run scripts/setup")
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(hwy REQUIRED)
if(KILN_TESTS)
  find_package(GTest REQUIRED)
endif()
if(KILN_BENCH)
  find_package(benchmark REQUIRED)
endif()

# The wheel's own HalideConfig.cmake asks for a newer cmake than Debian 12 has, so the target is
# made by hand. Only halide_gen/ links it.
find_library(KILN_HALIDE_LIBRARY Halide PATHS "${KILN_DEPS}/halide/lib64" REQUIRED NO_DEFAULT_PATH)
mark_as_advanced(KILN_HALIDE_LIBRARY)
add_library(Halide::Halide SHARED IMPORTED)
set_target_properties(Halide::Halide PROPERTIES
  IMPORTED_LOCATION "${KILN_HALIDE_LIBRARY}"
  IMPORTED_SONAME libHalide.so
  INTERFACE_INCLUDE_DIRECTORIES "${KILN_DEPS}/halide/include"
  INTERFACE_COMPILE_DEFINITIONS
    "HALIDE_VERSION_MAJOR=21;HALIDE_VERSION_MINOR=0;HALIDE_VERSION_PATCH=0;HALIDE_ENABLE_RTTI;HALIDE_WITH_EXCEPTIONS")

# Kiln's private copy of oneDNN (scripts/privatise_onednn.py).
if(NOT EXISTS "${KILN_DEPS}/onednn/lib/libkdnn.so.3")
  message(FATAL_ERROR "KILN_DEPS: no private oneDNN in \"${KILN_DEPS}\"; run scripts/setup")
endif()
add_library(kiln::onednn SHARED IMPORTED)
set_target_properties(kiln::onednn PROPERTIES
  IMPORTED_LOCATION "${KILN_DEPS}/onednn/lib/libkdnn.so.3"
  IMPORTED_SONAME libkdnn.so.3
  INTERFACE_INCLUDE_DIRECTORIES "${KILN_DEPS}/onednn/include")

find_program(KILN_CCACHE ccache)
mark_as_advanced(KILN_CCACHE)
if(KILN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${KILN_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KILN_CCACHE}")
endif()
