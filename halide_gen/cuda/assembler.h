// SPDX-License-Identifier: Apache-2.0
// PTX -> cubin, what a GPU runs, and back into text for people. No Halide here.
//
// NVIDIA's ptxas and nvdisasm do it, programs of the CUDA toolkit; requests say where they are.
// Equal versions of ptxas make equal bytes.
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

// Assembles `ptx` for the level of `target`; files in between are in `dir`. kUnavailable if `ptxas`
// is empty or cannot be run; kInternal if it refuses the text.
absl::StatusOr<Cubin> Assemble(absl::string_view ptx, Target target, const std::string& ptxas,
                               const std::string& dir);

// SASS: the instructions of each function. Errors likewise.
absl::StatusOr<std::string> Disassemble(absl::string_view cubin, const std::string& nvdisasm,
                                        const std::string& dir);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_ASSEMBLER_H_
