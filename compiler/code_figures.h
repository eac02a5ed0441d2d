// SPDX-License-Identifier: Apache-2.0
// What the functions of a kernel's machine code take of a GPU, as its assembler says and as they
// are launched: the sections "ptxas" and "launch" of an entry.
//
//   for (const FunctionFigures& one : FiguresOf(entry)) if (one.spill_stores > 0) ...
#ifndef KILN_COMPILER_CODE_FIGURES_H_
#define KILN_COMPILER_CODE_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "persistent_cache/entry.h"

namespace kiln {

struct FunctionFigures {
  std::string name, level;                           // "k0", "sm_90"
  int64_t registers = 0;                             // of a thread
  int64_t spill_stores = 0, spill_loads = 0;         // bytes of a thread, as is:
  int64_t local = 0;                                 // its memory beside registers
  int64_t barriers = 0;                              // named ones
  std::optional<int64_t> threads = {}, shared = {};  // of a block; nothing: extents decide
};

// In the order of the code; lines that say something else are passed over.
std::vector<FunctionFigures> ParseFigures(absl::string_view figures, absl::string_view recipe);

// None where the entry has no machine code.
std::vector<FunctionFigures> FiguresOf(const Entry& entry);

}  // namespace kiln

#endif  // KILN_COMPILER_CODE_FIGURES_H_
