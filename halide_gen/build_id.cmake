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
# What makes cubins, where the CUDA toolkit is installed; without it there are none.
find_program(KILN_PTXAS ptxas HINTS /usr/local/cuda/bin DOC "NVIDIA's assembler of PTX")
mark_as_advanced(KILN_PTXAS)
set(KILN_ASSEMBLER "")
if(KILN_PTXAS)
  execute_process(COMMAND "${KILN_PTXAS}" --version OUTPUT_VARIABLE ptxas_version ERROR_QUIET)
  if(ptxas_version MATCHES "V([0-9]+[.][0-9]+[.][0-9]+)")
    set(KILN_ASSEMBLER "ptxas ${CMAKE_MATCH_1}")
  endif()
endif()
set(KILN_BUILD_ID_SOURCE "${KILN_GEN_DIR}/halide_gen/build_id.cc")
add_custom_command(
  OUTPUT "${KILN_BUILD_ID_SOURCE}"
  COMMAND ${CMAKE_COMMAND} "-DFILES=${codegen_sources}" "-DDEVICES=${devices}" "-DHALIDE=${KILN_HALIDE_LIBRARY}" -DVERSION=21.0.0 "-DASSEMBLER=${KILN_ASSEMBLER}"
          "-DOUT=${KILN_BUILD_ID_SOURCE}" -P "${PROJECT_SOURCE_DIR}/cmake/MakeBuildId.cmake"
  DEPENDS ${codegen_sources} "${KILN_HALIDE_LIBRARY}" "${PROJECT_SOURCE_DIR}/cmake/MakeBuildId.cmake"
  COMMENT "build id of code generation"
  VERBATIM)
