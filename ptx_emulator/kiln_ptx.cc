// SPDX-License-Identifier: Apache-2.0
// kiln-ptx FILE...: parses PTX as the emulator does and prints what is in it; exit 1 for an error.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ptx_emulator/module.h"

namespace kiln::ptx {
namespace {

// The opcode of an instruction's line, without its guard.
std::string OpcodeOf(const Kernel& kernel, const Instruction& instruction) {
  for (const absl::string_view word :
       absl::StrSplit(kernel.TextOf(instruction), absl::ByAnyChar(" \t;"), absl::SkipEmpty())) {
    if (word[0] != '@' && word[0] != '{') return std::string(word);
  }
  return "";
}

void Print(const Kernel& kernel) {
  std::printf("kernel %s: %zu instructions, %d registers, %u bytes shared, %u local\n",
              kernel.name.c_str(), kernel.code.size(), kernel.registers, kernel.shared_bytes,
              kernel.local_bytes);
  for (const Parameter& parameter : kernel.parameters) {
    std::printf("  parameter %s: %d bytes at %d\n", parameter.name.c_str(), parameter.bytes,
                parameter.offset);
  }
  std::map<std::string, int> opcodes;
  for (size_t i = 0; i + 1 < kernel.code.size(); ++i) ++opcodes[OpcodeOf(kernel, kernel.code[i])];
  for (const auto& [opcode, count] : opcodes) std::printf("  %6d %s\n", count, opcode.c_str());
}

int PrintFile(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "\"%s\": cannot be read\n", path);
    return 1;
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const absl::StatusOr<Module> module = Parse(text);
  if (!module.ok()) {
    std::fprintf(stderr, "\"%s\": %s\n", path, std::string(module.status().message()).c_str());
    return 1;
  }
  std::printf("%s: PTX %d.%d for sm_%d\n", path, module->version / 10, module->version % 10,
              module->target);
  for (const Kernel& kernel : module->kernels) Print(kernel);
  return 0;
}

}  // namespace
}  // namespace kiln::ptx

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: kiln-ptx FILE...\n");
    return 2;
  }
  int failed = 0;
  for (int i = 1; i < argc; ++i) failed |= kiln::ptx::PrintFile(argv[i]);
  return failed;
}
