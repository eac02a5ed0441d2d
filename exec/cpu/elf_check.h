// SPDX-License-Identifier: Apache-2.0
// Reads a kernel's ELF file the way the dynamic linker will, with bounds, so that no file can make
// the linker crash or run code while it loads: only what a kernel needs is allowed.
//
// Allowed: a little-endian x86-64 shared object with ascending, non-overlapping, readable load
// segments inside the file; a GNU hash table, symbols and strings inside them; relative relocations
// of writable memory; a stack that is not executable. Refused: needed libraries, an interpreter,
// thread-local data, constructors, undefined symbols, all other relocations.
#ifndef KILN_EXEC_CPU_ELF_CHECK_H_
#define KILN_EXEC_CPU_ELF_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Addresses relative to where the object is loaded.
struct KernelElf {
  uint64_t entry = 0;    // k_argv, in executable memory
  uint64_t imports = 0;  // kiln_imports, kNumImports slots in writable memory, zero in the file
  // The table starts a page; it then has the page to itself (the link stub makes it so), which may
  // be made read-only once filled.
  bool imports_alone = false;
};

// kDataLoss names what is wrong. The bytes need no alignment. Thread-safe.
absl::StatusOr<KernelElf> CheckKernelElf(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_EXEC_CPU_ELF_CHECK_H_
