// SPDX-License-Identifier: Apache-2.0
// Names of the functions in a kernel's ELF file, for `kiln cache show`.
#ifndef KILN_TOOLS_ELF_SYMBOLS_H_
#define KILN_TOOLS_ELF_SYMBOLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kiln {

struct ElfSymbol {
  std::string name;
  uint64_t bytes = 0;
};

// Functions of the symbol table, else of the dynamic one, largest first; none where the bytes are
// no such file. Reads nothing outside `elf`.
std::vector<ElfSymbol> FunctionsOf(absl::string_view elf);

}  // namespace kiln

#endif  // KILN_TOOLS_ELF_SYMBOLS_H_
