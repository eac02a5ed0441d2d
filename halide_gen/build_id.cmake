# SPDX-License-Identifier: Apache-2.0
# Sets KILN_BUILD_ID_SOURCE, the generated definition of build_id.h: put it into the SRCS of the Halide-free library of this
# component (protocol.cc), and let kiln-codegen send kCodegenBuildId and kCodegenCompiler in its hello.
# The build id changes whenever a source does that can change a kernel's bytes.
file(
  GLOB codegen_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/halide_gen/*.h" "${PROJECT_SOURCE_DIR}/halide_gen/*.cc"
  "${PROJECT_SOURCE_DIR}/halide_gen/*/*.h" "${PROJECT_SOURCE_DIR}/halide_gen/*/*.cc"
  "${PROJECT_SOURCE_DIR}/kernel/*.h" "${PROJECT_SOURCE_DIR}/kernel/*.cc"
  "${PROJECT_SOURCE_DIR}/schedule/*.h" "${PROJECT_SOURCE_DIR}/schedule/*.cc"
  "${PROJECT_SOURCE_DIR}/schedule/*/*.h" "${PROJECT_SOURCE_DIR}/schedule/*/*.cc")
file(GLOB devices RELATIVE "${PROJECT_SOURCE_DIR}/halide_gen" "${PROJECT_SOURCE_DIR}/halide_gen/*/backend.h")
list(TRANSFORM devices REPLACE "/backend.h" "")
list(REMOVE_ITEM devices common)
set(KILN_BUILD_ID_SOURCE "${KILN_GEN_DIR}/halide_gen/build_id.cc")
add_custom_command(
  OUTPUT "${KILN_BUILD_ID_SOURCE}"
  COMMAND ${CMAKE_COMMAND} "-DFILES=${codegen_sources}" "-DDEVICES=${devices}" "-DHALIDE=${KILN_HALIDE_LIBRARY}" -DVERSION=21.0.0
          "-DOUT=${KILN_BUILD_ID_SOURCE}" -P "${PROJECT_SOURCE_DIR}/cmake/MakeBuildId.cmake"
  DEPENDS ${codegen_sources} "${KILN_HALIDE_LIBRARY}" "${PROJECT_SOURCE_DIR}/cmake/MakeBuildId.cmake"
  COMMENT "build id of code generation"
  VERBATIM)
