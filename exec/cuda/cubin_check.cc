// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cubin_check.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace kiln::cuda {
namespace {

constexpr uint16_t kGpu = 190;  // correctness: EM_CUDA, which not all elf.h have

absl::Status Wrong(absl::string_view what, uint64_t is, uint64_t expected) {
  return absl::DataLossError(
      absl::StrCat("machine code: ", what, " is ", is, ", expected ", expected));
}

template <typename T>
T ReadAt(absl::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool Within(absl::string_view bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

absl::Status Outside(absl::string_view bytes, absl::string_view what, uint64_t offset,
                     uint64_t size) {
  return absl::DataLossError(absl::StrCat("machine code: ", what, " at ", offset, " has ", size,
                                          " bytes, the file has ", bytes.size()));
}

absl::Status CheckHeader(absl::string_view bytes, Elf64_Ehdr& header) {
  if (bytes.size() < sizeof(header)) return Outside(bytes, "the header", 0, sizeof(header));
  header = ReadAt<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return absl::DataLossError("machine code: is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64)
    return Wrong("its class", header.e_ident[EI_CLASS], ELFCLASS64);
  if (header.e_ident[EI_DATA] != ELFDATA2LSB)
    return Wrong("its byte order", header.e_ident[EI_DATA], ELFDATA2LSB);
  if (header.e_machine != kGpu) return Wrong("its machine", header.e_machine, kGpu);
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    return Wrong("the size of a section header", header.e_shentsize, sizeof(Elf64_Shdr));
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))
    return Wrong("the size of a program header", header.e_phentsize, sizeof(Elf64_Phdr));
  if (header.e_shstrndx >= header.e_shnum)
    return absl::DataLossError(absl::StrCat("machine code: names are section ", header.e_shstrndx,
                                            " of ", header.e_shnum));
  const uint64_t sections = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (!Within(bytes, header.e_shoff, sections))
    return Outside(bytes, "the section table", header.e_shoff, sections);
  const uint64_t segments = uint64_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (!Within(bytes, header.e_phoff, segments))
    return Outside(bytes, "the program table", header.e_phoff, segments);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCubin(absl::string_view bytes) {
  Elf64_Ehdr header;
  if (absl::Status status = CheckHeader(bytes, header); !status.ok()) return status;
  const auto section = [&](uint64_t number) {
    return ReadAt<Elf64_Shdr>(bytes, header.e_shoff + number * sizeof(Elf64_Shdr));
  };
  for (uint64_t k = 0; k < header.e_shnum; ++k) {
    const Elf64_Shdr one = section(k);
    if (one.sh_type == SHT_NULL || one.sh_type == SHT_NOBITS) continue;
    if (!Within(bytes, one.sh_offset, one.sh_size))
      return Outside(bytes, absl::StrCat("section ", k), one.sh_offset, one.sh_size);
  }
  const Elf64_Shdr names = section(header.e_shstrndx);
  // Each ends within the table if that ends with a zero.
  if (names.sh_type != SHT_STRTAB || names.sh_size == 0 ||
      bytes[names.sh_offset + names.sh_size - 1] != 0)
    return absl::DataLossError("machine code: the names of its sections are no text");
  for (uint64_t k = 0; k < header.e_shnum; ++k) {
    if (section(k).sh_name >= names.sh_size)
      return absl::DataLossError(absl::StrCat("machine code: section ", k, " has its name at ",
                                              section(k).sh_name, " of ", names.sh_size, " bytes"));
  }
  for (uint64_t k = 0; k < header.e_phnum; ++k) {
    const auto segment = ReadAt<Elf64_Phdr>(bytes, header.e_phoff + k * sizeof(Elf64_Phdr));
    if (!Within(bytes, segment.p_offset, segment.p_filesz))
      return Outside(bytes, absl::StrCat("segment ", k), segment.p_offset, segment.p_filesz);
  }
  return absl::OkStatus();
}

}  // namespace kiln::cuda
