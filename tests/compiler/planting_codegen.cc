// SPDX-License-Identifier: Apache-2.0
// A kiln-codegen that answers every request with the same wrong code.
#include <fstream>
#include <iterator>
#include <string>

#include "kiln/halide_gen/build_id.h"
#include "kiln/halide_gen/protocol.h"

int main() {
  std::ifstream file(PLANTED_KERNEL, std::ios::binary);
  const std::string elf((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  kiln::CodegenAnswer answer;
  answer.sections = {{"elf", elf}};
  answer.isa = "avx";
  if (!kiln::WriteFrame(1, Encode(kiln::CodegenHello{kiln::kCodegenBuildId, ""})).ok()) return 1;
  while (kiln::ReadFrame(0, -1).ok()) {
    if (!kiln::WriteFrame(1, Encode(answer)).ok()) return 1;
  }
  return 0;
}
