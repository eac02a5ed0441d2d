# SPDX-License-Identifier: Apache-2.0
# Writes a source file that defines a constant, the digest of all files named in a list. Run as a script:
#   cmake -DLIST=files.txt -DROOT=dir -DHEADER=kiln/x.h -DNAME=kX -DOUT=x.cc -P MakeSourceDigest.cmake
file(STRINGS "${LIST}" files)
set(all "")
foreach(file IN LISTS files)
  file(SHA256 "${ROOT}/${file}" one)
  string(APPEND all "${file} ${one}\n")
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING "${digest}" 0 32 digest)
file(WRITE "${OUT}" "// Made by MakeSourceDigest.cmake.
#include \"${HEADER}\"
namespace kiln {
const char ${NAME}[] = \"${digest}\";
}  // namespace kiln
")
