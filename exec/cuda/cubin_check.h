// SPDX-License-Identifier: Apache-2.0
// Whether machine code for a GPU is a whole ELF file, before a driver is given its address: the
// driver is told no length, and reads as far as the headers say.
#ifndef KILN_EXEC_CUDA_CUBIN_CHECK_H_
#define KILN_EXEC_CUDA_CUBIN_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln::cuda {

// That it is a little-endian ELF64 file for GPUs whose tables, sections and segments lie within
// these bytes, and whose sections have names. What is in them is the driver's to judge. kDataLoss
// says what is wrong. The bytes need no alignment. Thread-safe.
absl::Status CheckCubin(absl::string_view bytes);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_CUBIN_CHECK_H_
