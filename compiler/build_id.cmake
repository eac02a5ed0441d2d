# SPDX-License-Identifier: Apache-2.0
# Sets KILN_COMPILER_BUILD_ID_SOURCE, the generated definition of compiler/build_id.h. The id changes whenever a source does
# that can change a Program.
file(
  GLOB_RECURSE compiler_sources CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/base/*.h" "${PROJECT_SOURCE_DIR}/base/*.cc"
  "${PROJECT_SOURCE_DIR}/kernel/*.h" "${PROJECT_SOURCE_DIR}/kernel/*.cc"
  "${PROJECT_SOURCE_DIR}/graph/*.h" "${PROJECT_SOURCE_DIR}/graph/*.cc" "${PROJECT_SOURCE_DIR}/graph/*.proto"
  "${PROJECT_SOURCE_DIR}/schedule/*.h" "${PROJECT_SOURCE_DIR}/schedule/*.cc"
  "${PROJECT_SOURCE_DIR}/fusion/*.h" "${PROJECT_SOURCE_DIR}/fusion/*.cc"
  "${PROJECT_SOURCE_DIR}/fusion/machines/*.machine"
  "${PROJECT_SOURCE_DIR}/exec/*.h" "${PROJECT_SOURCE_DIR}/exec/*.cc" "${PROJECT_SOURCE_DIR}/exec/*.proto"
  "${PROJECT_SOURCE_DIR}/compiler/*.h" "${PROJECT_SOURCE_DIR}/compiler/*.cc"
  "${PROJECT_SOURCE_DIR}/compiler/*.proto")
list(JOIN compiler_sources "\n" compiler_source_lines)
set(compiler_source_list "${CMAKE_CURRENT_BINARY_DIR}/compiler_sources.txt")
file(GENERATE OUTPUT "${compiler_source_list}" CONTENT "${compiler_source_lines}\n")
set(KILN_COMPILER_BUILD_ID_SOURCE "${KILN_GEN_DIR}/kiln/compiler/build_id.cc")
list(TRANSFORM compiler_sources PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE compiler_source_paths)
add_custom_command(
  OUTPUT "${KILN_COMPILER_BUILD_ID_SOURCE}"
  COMMAND ${CMAKE_COMMAND} "-DLIST=${compiler_source_list}" "-DROOT=${PROJECT_SOURCE_DIR}"
          -DHEADER=kiln/compiler/build_id.h -DNAME=kCompilerBuildId
          "-DOUT=${KILN_COMPILER_BUILD_ID_SOURCE}" -P "${PROJECT_SOURCE_DIR}/cmake/MakeSourceDigest.cmake"
  DEPENDS ${compiler_source_paths} "${compiler_source_list}" "${PROJECT_SOURCE_DIR}/cmake/MakeSourceDigest.cmake"
  COMMENT "build id of the compiler"
  VERBATIM)
