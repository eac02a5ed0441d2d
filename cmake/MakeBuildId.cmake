# SPDX-License-Identifier: Apache-2.0
# Writes halide_gen's build_id.cc. Run as a script:
#   cmake -DFILES="a;b" -DDEVICES="cpu" -DHALIDE=libHalide.so -DVERSION=21.0.0 -DOUT=build_id.cc -P MakeBuildId.cmake
# Sources of a device are in folders of its name: the id of another does not depend on them.
cmake_minimum_required(VERSION 3.25)

function(digest_of out others)
  set(all "")
  foreach(file IN LISTS FILES)
    get_filename_component(folder "${file}" DIRECTORY)
    get_filename_component(folder "${folder}" NAME)
    if(folder IN_LIST others)
      continue()
    endif()
    file(SHA256 "${file}" one)
    get_filename_component(name "${file}" NAME)
    string(APPEND all "${name} ${one}\n")
  endforeach()
  string(SHA256 digest "${all}")
  string(SUBSTRING "${digest}" 0 32 digest)
  set(${out} "${digest}" PARENT_SCOPE)
endfunction()

digest_of(sources "")
set(rows "")
foreach(device IN LISTS DEVICES)
  set(others ${DEVICES})
  list(REMOVE_ITEM others "${device}")
  digest_of(own "${others}")
  string(APPEND rows "    {\"${device}\", \"${own}\"},\n")
endforeach()
file(SHA256 "${HALIDE}" halide)
string(SUBSTRING "${halide}" 0 32 halide)
file(WRITE "${OUT}" "// Made by MakeBuildId.cmake.
#include \"halide_gen/common/build_id.h\"
namespace kiln {
const char kCodegenBuildId[] = \"${sources}\";
const char kCodegenCompiler[] = \"halide ${VERSION} ${halide}\";
const char* CodegenBuildId(DeviceKind device) {
  static constexpr struct {
    absl::string_view device;
    const char* id;
  } kIds[] = {
${rows}  };
  for (const auto& row : kIds)
    if (row.device == Name(device)) return row.id;
  return kCodegenBuildId;
}
}  // namespace kiln
")
