// SPDX-License-Identifier: Apache-2.0
// Makes a kernel's shared object callable: bytes -> sealed memory file -> dlopen -> import table
// filled.
//
// The bytes that were verified are the bytes that run: they go to a memory file that nobody can
// write any more, never back to a path. Each load gets a path spelling of its own, since glibc
// knows objects by path and a closed descriptor's number comes back with the next file.
//
// Environment: KILN_DEBUG_LOAD=file loads from a file that stays in the temporary folder, so that
// perf and gdb can name the kernel. The same way, without keeping the file, is taken where
// executable memory files are forbidden (vm.memfd_noexec=2).
#ifndef KILN_EXEC_CPU_ELF_LOADER_H_
#define KILN_EXEC_CPU_ELF_LOADER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/support/device.h"

namespace kiln {

// Loads the shared object `bytes`; `name` is what debuggers show. kDataLoss: not a kernel of this
// interface (elf_check.h); kResourceExhausted or kUnavailable: the system refuses memory or
// descriptors. Thread-safe.
absl::StatusOr<LoadedKernel> LoadElf(absl::string_view bytes, absl::string_view name = "kernel");

// True if this machine has every instruction set named in `isa` (space separated, as in the meta
// section of an entry), KILN_MAX_ISA respected.
bool HostRuns(absl::string_view isa);

}  // namespace kiln

#endif  // KILN_EXEC_CPU_ELF_LOADER_H_
