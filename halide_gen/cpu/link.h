// SPDX-License-Identifier: Apache-2.0
// Links the object of a kernel into a shared object that stands alone (kernel/abi.h): what it
// imports, it calls through the trampolines of the import stub. An import that the stub does not
// have is an error.
#ifndef KILN_HALIDE_GEN_CPU_LINK_H_
#define KILN_HALIDE_GEN_CPU_LINK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Object file bytes of the stub: one hidden trampoline per name of kImportNames, the table
// kiln_imports, kiln_abi.
absl::string_view ImportStub();

// Runs as and ld on the assembly text k.s in `dir`, with all files there; returns the bytes of the
// shared object. kUnavailable if one cannot be run or a file not be written (worth another try),
// kInternal with its own words if it refuses.
absl::StatusOr<std::string> LinkKernel(const std::string& dir);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_LINK_H_
