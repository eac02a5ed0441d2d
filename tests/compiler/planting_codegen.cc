// SPDX-License-Identifier: Apache-2.0
// A kiln-codegen that answers every request with the same wrong code: planted_<k>.so where its
// name, which may be that of a link to it, ends in _<k>; else planted_1.so.
#include <fstream>
#include <iterator>
#include <string>

#include "base/helper_main.h"
#include "halide_gen/common/build_id.h"
#include "halide_gen/common/protocol.h"

int main(int, char** argv) {
  const std::string name = argv[0];
  const std::string end = name.substr(name.rfind('_') + 1);
  const bool numbered = end.find_first_not_of("0123456789") == std::string::npos;
  std::ifstream file(std::string(PLANTED_DIR "/planted_") + (numbered ? end : "1") + ".so",
                     std::ios::binary);
  const std::string elf((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  kiln::CodegenAnswer answer;
  answer.sections = {{"elf", elf}};
  answer.isa = "avx";
  return kiln::ServeRequests(Encode(kiln::CodegenHello{kiln::kCodegenBuildId, ""}),
                             [&](const std::string&) { return Encode(answer); });
}
