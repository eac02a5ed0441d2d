# SPDX-License-Identifier: Apache-2.0
# Writes halide_gen's build_id.cc. Run as a script:
#   cmake -DFILES="a;b" -DHALIDE=libHalide.so -DVERSION=21.0.0 -DOUT=build_id.cc -P MakeBuildId.cmake
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 "${file}" one)
  get_filename_component(name "${file}" NAME)
  string(APPEND all "${name} ${one}\n")
endforeach()
string(SHA256 sources "${all}")
string(SUBSTRING "${sources}" 0 32 sources)
file(SHA256 "${HALIDE}" halide)
string(SUBSTRING "${halide}" 0 32 halide)
file(WRITE "${OUT}" "// Made by MakeBuildId.cmake.
#include \"halide_gen/common/build_id.h\"
namespace kiln {
const char kCodegenBuildId[] = \"${sources}\";
const char kCodegenCompiler[] = \"halide ${VERSION} ${halide}\";
}  // namespace kiln
")
