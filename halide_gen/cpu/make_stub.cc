// SPDX-License-Identifier: Apache-2.0
// Build-time tool.  make_stub asm: prints the import stub (kernel/abi.h) as assembly.
//                   make_stub embed FILE: prints a C++ source that defines kiln::ImportStub() as
//                   the bytes of FILE.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "kernel/abi.h"

namespace {

void PrintAssembly() {
  std::puts(".section .note.GNU-stack,\"\",@progbits\n.text");
  size_t slot = 0;
  for (const char* name : kiln::kImportNames) {
    std::printf(".p2align 4\n.globl %s\n.hidden %s\n.type %s,@function\n", name, name, name);
    std::printf("%s: endbr64\n jmp *kiln_imports+%zu(%%rip)\n.size %s,.-%s\n", name, 8 * slot++,
                name, name);
  }
  // Page-aligned and a page long, so that the loader can make the filled table read-only.
  std::puts(
      ".section .bss\n.globl kiln_imports\n.protected kiln_imports\n.type "
      "kiln_imports,@object\n.p2align 12");
  std::printf("kiln_imports: .zero 4096\n.size kiln_imports,%zu\n", 8 * kiln::kNumImports);
  std::puts(
      ".section .rodata\n.globl kiln_abi\n.protected kiln_abi\n.type kiln_abi,@object\n.size "
      "kiln_abi,4\n.p2align 2");
  std::printf("kiln_abi: .long %u\n", kiln::kKernelAbi);
}

int PrintEmbedded(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) {
    std::fprintf(stderr, "make_stub: \"%s\": cannot be read\n", path);
    return 1;
  }
  std::puts(
      "#include \"halide_gen/cpu/link.h\"\n\nnamespace {\nconstexpr unsigned char kBytes[] = {");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::printf("%u,%s", static_cast<unsigned char>(bytes[i]), i % 24 == 23 ? "\n" : "");
  }
  std::puts("};\n}  // namespace\n\nabsl::string_view kiln::ImportStub() {");
  std::puts("  return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)};\n}");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "asm") == 0) {
    PrintAssembly();
    return 0;
  }
  if (argc == 3 && std::strcmp(argv[1], "embed") == 0) return PrintEmbedded(argv[2]);
  std::fprintf(stderr, "usage: make_stub asm | make_stub embed FILE\n");
  return 2;
}
