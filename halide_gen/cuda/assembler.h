// SPDX-License-Identifier: Apache-2.0
// PTX -> cubin: what a GPU runs, where its driver need not assemble it first. No Halide here.
//
// NVIDIA's ptxas does it, a program of the CUDA toolkit. The build finds it, and its name and
// version stand in build_id.h (kCodegenAssembler); a worker makes cubins by that version alone, so
// that equal keys have equal bytes.
#ifndef KILN_HALIDE_GEN_CUDA_ASSEMBLER_H_
#define KILN_HALIDE_GEN_CUDA_ASSEMBLER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/target.h"

namespace kiln {

struct Cubin {
  std::string bytes;    // an ELF file
  std::string figures;  // what ptxas says of each function: registers, spills, stack, shared bytes
};

// Assembles `ptx` for the level of `target`; files in between are in `dir`. kUnavailable if there
// is no ptxas, or another one than that of the build: somebody else's worker may have it; kInternal
// if it refuses the text.
absl::StatusOr<Cubin> Assemble(absl::string_view ptx, Target target, const std::string& dir);

// "13.0.88" of what `ptxas --version` prints; empty if there is none in it.
std::string AssemblerVersion(absl::string_view printed);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_ASSEMBLER_H_
