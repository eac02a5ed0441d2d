// SPDX-License-Identifier: Apache-2.0
// Which instruction-set extensions a piece of x86 assembly really needs.
#ifndef KILN_HALIDE_GEN_CPU_ISA_SCAN_H_
#define KILN_HALIDE_GEN_CPU_ISA_SCAN_H_

#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

// Names as in base/cpu_features.h, sorted, separated by blanks; empty if only the baseline (SSE2)
// is used. Reads assembly text in either syntax. Errs on the side of more: an instruction that may
// be of two extensions names both. Example: "vfmadd231ps %zmm1, %zmm2, %zmm3" -> "avx avx2 avx512f
// fma".
std::string IsaOf(absl::string_view assembly);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_ISA_SCAN_H_
