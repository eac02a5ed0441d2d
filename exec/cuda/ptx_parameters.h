// SPDX-License-Identifier: Apache-2.0
// What a function of PTX takes, read from the text before a driver launches it: the driver is told
// no number of arguments, and reads as many, of as many bytes, as the function declares.
//
//   KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes, PtxParameters(text, "k0"));
//   // {8, 8, 4} of `.entry k0(.param .u64 a, .param .u64 .ptr .align 16 b, .param .f32 c)`
#ifndef KILN_EXEC_CUDA_PTX_PARAMETERS_H_
#define KILN_EXEC_CUDA_PTX_PARAMETERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::cuda {

// That a driver takes it for a text, to its end: it begins as PTX does, not as machine code, and
// has neither a zero nor comments, which Kiln's texts have not. kDataLoss.
absl::Status CheckPtx(absl::string_view ptx);

// Bytes of each parameter of the entry, of a text that CheckPtx accepts. kDataLoss: there is no
// such entry, or two, or a parameter that is not understood. Thread-safe.
absl::StatusOr<std::vector<int64_t>> PtxParameters(absl::string_view ptx, absl::string_view entry);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_PTX_PARAMETERS_H_
