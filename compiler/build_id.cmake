# SPDX-License-Identifier: Apache-2.0
# Sets KILN_COMPILER_BUILD_ID_SOURCE, the generated definition of compiler/build_id.h. The id changes whenever a source does
# that can change a Program.
kiln_source_digest(
  KILN_COMPILER_BUILD_ID_SOURCE
  NAME kCompilerBuildId
  HEADER compiler/build_id.h
  COMMENT "build id of the compiler"
  GLOBS base/*.h base/*.cc kernel/*.h kernel/*.cc graph/*.h graph/*.cc graph/*.proto schedule/*.h schedule/*.cc
        schedule/*/*.h schedule/*/*.cc schedule/*/*.machine fusion/*.h fusion/*.cc
        exec/*.h exec/*.cc exec/*.proto exec/library/*.h exec/library/*.cc
        compiler/*.h compiler/*.cc compiler/*.proto)
