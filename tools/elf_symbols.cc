// SPDX-License-Identifier: Apache-2.0
#include "tools/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace kiln {
namespace {

// The T at `offset`, if it lies in `bytes`.
template <typename T>
std::optional<T> At(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string NameAt(absl::string_view bytes, const Elf64_Shdr& strings, uint32_t at) {
  if (strings.sh_offset > bytes.size() || at >= strings.sh_size) return "";
  absl::string_view rest = bytes.substr(strings.sh_offset, strings.sh_size);
  if (at >= rest.size()) return "";
  rest.remove_prefix(at);
  return std::string(rest.substr(0, rest.find('\0')));
}

std::vector<ElfSymbol> FunctionsIn(absl::string_view elf, const Elf64_Ehdr& head,
                                   const Elf64_Shdr& table) {
  std::vector<ElfSymbol> functions;
  const auto strings =
      At<Elf64_Shdr>(elf, head.e_shoff + uint64_t{table.sh_link} * sizeof(Elf64_Shdr));
  for (uint64_t at = 0; strings.has_value() && at + sizeof(Elf64_Sym) <= table.sh_size;
       at += sizeof(Elf64_Sym)) {
    const auto symbol = At<Elf64_Sym>(elf, table.sh_offset + at);
    if (!symbol.has_value()) break;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_size == 0) continue;
    functions.push_back({NameAt(elf, *strings, symbol->st_name), symbol->st_size});
  }
  std::sort(functions.begin(), functions.end(), [](const ElfSymbol& a, const ElfSymbol& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  return functions;
}

}  // namespace

std::vector<ElfSymbol> FunctionsOf(absl::string_view elf) {
  const auto head = At<Elf64_Ehdr>(elf, 0);
  if (!head.has_value() || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_shoff > elf.size())
    return {};
  for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (uint64_t k = 0; k < head->e_shnum; ++k) {
      const auto section = At<Elf64_Shdr>(elf, head->e_shoff + k * sizeof(Elf64_Shdr));
      if (!section.has_value() || section->sh_type != type || section->sh_offset > elf.size())
        continue;
      std::vector<ElfSymbol> functions = FunctionsIn(elf, *head, *section);
      if (!functions.empty()) return functions;
    }
  }
  return {};
}

}  // namespace kiln
