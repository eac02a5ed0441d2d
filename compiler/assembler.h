// SPDX-License-Identifier: Apache-2.0
// NVIDIA's assembler of PTX, ptxas, as this process finds it: by KILN_PTXAS ("none": do without),
// on PATH, or in /usr/local/cuda/bin.
//
// Where there is one, an entry for CUDA has a cubin for its level beside the PTX, and its key names
// the assembler; where there is none, the driver assembles the PTX when it is loaded. Equal names
// make equal bytes; a cubin tells who made it, which is compared.
//
//   AssemblerOf(*Target::Parse("cuda-sm90"))   // "ptxas 13.0.88", or ""
#ifndef KILN_COMPILER_ASSEMBLER_H_
#define KILN_COMPILER_ASSEMBLER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/target.h"
#include "halide_gen/common/protocol.h"

namespace kiln {

struct Assembler {
  std::string path = {}, name = {};  // "ptxas 13.0.88"; both are empty: there is none
  std::string problem = {};          // why what was named, or found, cannot be used
};
// Found once; thread-safe. A problem is logged, as a warning, when it is found.
Assembler HostAssembler();

// What makes the machine code of kernels for the target here, as keys have it: "" where nothing
// does, or the target has none but the code itself.
std::string AssemblerOf(Target target);
// Whether keys of kernels for this device name it.
bool IsAssembled(DeviceKind device);

// Names the programs in the request that its sections need. kNotFound: one is not installed, and
// what to do.
absl::Status AddTools(CodegenRequest& request);

// kUnavailable if the cubin of the answer says that it is not the work of `assembler`: another one
// has been installed meanwhile.
absl::Status CheckMadeBy(absl::string_view assembler, const CodegenAnswer& answer);

// "13.0.88" of what `ptxas --version` prints, and writes into what it makes; empty if there is
// none.
std::string AssemblerVersion(absl::string_view printed);

}  // namespace kiln

#endif  // KILN_COMPILER_ASSEMBLER_H_
