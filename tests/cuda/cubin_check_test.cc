// SPDX-License-Identifier: Apache-2.0
// exec/cuda/cubin_check.h against random files of known layout, cut short and with changed headers:
// what lies outside by arithmetic of 128 bits is refused, and nothing else.
#include "exec/cuda/cubin_check.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/base/environment.h"

namespace kiln::cuda {
namespace {

using Wide = unsigned __int128;

struct Layout {
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Phdr> segments;
  uint64_t end = 0;

  std::string Bytes() const {
    std::string bytes(end, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    if (!sections.empty())
      std::memcpy(bytes.data() + sizeof header, sections.data(),
                  sections.size() * sizeof sections[0]);
    if (!segments.empty()) {
      std::memcpy(bytes.data() + sizeof header + sections.size() * sizeof(Elf64_Shdr),
                  segments.data(), segments.size() * sizeof segments[0]);
    }
    return bytes;
  }
  // Whether all that the headers name lies within so many bytes.
  bool LiesIn(uint64_t size) const {
    const auto in = [&](uint64_t offset, Wide bytes) { return Wide{offset} + bytes <= size; };
    bool all = in(0, sizeof header) &&
               in(header.e_shoff, Wide{sizeof(Elf64_Shdr)} * header.e_shnum) &&
               in(header.e_phoff, Wide{sizeof(Elf64_Phdr)} * header.e_phnum);
    for (const Elf64_Shdr& one : sections)
      all = all && (one.sh_type == SHT_NOBITS || one.sh_type == SHT_NULL ||
                    in(one.sh_offset, one.sh_size));
    for (const Elf64_Phdr& one : segments) all = all && in(one.p_offset, one.p_filesz);
    return all;
  }
};

// Header, section table, program table, contents.
Layout Draw(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return random() % n; };
  Layout made;
  std::memcpy(made.header.e_ident, ELFMAG, SELFMAG);
  made.header.e_ident[EI_CLASS] = ELFCLASS64;
  made.header.e_ident[EI_DATA] = ELFDATA2LSB;
  made.header.e_machine = 190;
  made.header.e_shentsize = sizeof(Elf64_Shdr);
  made.header.e_phentsize = sizeof(Elf64_Phdr);
  made.sections.resize(2 + below(5));
  made.segments.resize(below(3));
  made.header.e_shnum = static_cast<uint16_t>(made.sections.size());
  made.header.e_phnum = static_cast<uint16_t>(made.segments.size());
  made.header.e_shoff = sizeof made.header;
  made.header.e_phoff = made.header.e_shoff + made.sections.size() * sizeof(Elf64_Shdr);
  made.end = made.header.e_phoff + made.segments.size() * sizeof(Elf64_Phdr);
  const size_t names = 1 + below(made.sections.size() - 1);
  made.header.e_shstrndx = static_cast<uint16_t>(names);
  for (size_t k = 1; k < made.sections.size(); ++k) {
    Elf64_Shdr& one = made.sections[k];
    one.sh_type = k == names ? SHT_STRTAB : below(4) == 0 ? SHT_NOBITS : SHT_PROGBITS;
    one.sh_offset = made.end;
    one.sh_size = 1 + below(40);
    if (one.sh_type != SHT_NOBITS) made.end += one.sh_size;
  }
  for (Elf64_Phdr& one : made.segments) {
    one.p_offset = below(made.end);
    one.p_filesz = below(made.end - one.p_offset + 1);
  }
  return made;
}

TEST(CubinCheck, RefusesWhatIsCutShort) {
  std::mt19937_64 random(1);
  for (int k = 0; k < 50; ++k) {
    const Layout layout = Draw(random);
    const std::string bytes = layout.Bytes();
    ASSERT_EQ(CheckCubin(bytes), absl::OkStatus());
    for (size_t size = 0; size < bytes.size(); ++size) {
      // A copy of its own, for AddressSanitizer.
      const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const absl::Status status = CheckCubin({cut.data(), cut.size()});
      ASSERT_EQ(status.ok(), layout.LiesIn(size)) << size << ": " << status;
      ASSERT_TRUE(status.ok() || absl::IsDataLoss(status));
    }
  }
}

TEST(CubinCheck, RefusesWhatLiesOutside) {
  const auto files = FromEnvironment("KILN_CUBINS", 20000);
  std::mt19937_64 random(FromEnvironment("KILN_SEED", 1));
  uint64_t refused = 0;
  for (uint64_t k = 0; k < files; ++k) {
    Layout layout = Draw(random);
    std::vector<uint64_t*> fields = {&layout.header.e_shoff, &layout.header.e_phoff};
    for (size_t s = 1; s < layout.sections.size(); ++s) {
      if (s == layout.header.e_shstrndx) continue;  // whose bytes are looked at
      fields.push_back(&layout.sections[s].sh_offset);
      fields.push_back(&layout.sections[s].sh_size);
    }
    for (Elf64_Phdr& one : layout.segments) {
      fields.push_back(&one.p_offset);
      fields.push_back(&one.p_filesz);
    }
    const uint64_t values[] = {0,
                               layout.end - 1,
                               layout.end,
                               layout.end + 1,
                               random() % 2000,
                               UINT64_MAX,
                               UINT64_MAX - random() % 2000,
                               uint64_t{1} << 63};
    const size_t first = random() % 8 == 0 ? 0 : 2;
    uint64_t* const field = fields[std::min(first + random() % fields.size(), fields.size() - 1)];
    const uint64_t before = *field;
    *field = values[random() % std::size(values)];
    const std::string bytes = layout.Bytes();
    const absl::Status status = CheckCubin(bytes);
    const bool moved = field == &layout.header.e_shoff && *field != before;
    // A table elsewhere is another one, which is judged by its bounds alone.
    if (moved && layout.LiesIn(bytes.size())) continue;
    if (field == &layout.header.e_phoff && *field != before && layout.LiesIn(bytes.size()))
      continue;
    ASSERT_EQ(status.ok(), layout.LiesIn(bytes.size())) << "file " << k << ": " << status;
    refused += status.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, files / 10);
}

TEST(CubinCheck, RefusesOtherFiles) {
  std::mt19937_64 random(7);
  const Layout layout = Draw(random);
  const auto refused = [&](auto change) {
    Layout other = layout;
    change(other);
    return !CheckCubin(other.Bytes()).ok();
  };
  EXPECT_TRUE(refused([](Layout& l) { l.header.e_ident[0] = 'E'; }));
  EXPECT_TRUE(refused([](Layout& l) { l.header.e_ident[EI_CLASS] = ELFCLASS32; }));
  EXPECT_TRUE(refused([](Layout& l) { l.header.e_ident[EI_DATA] = ELFDATA2MSB; }));
  EXPECT_TRUE(refused([](Layout& l) { l.header.e_machine = EM_X86_64; }));
  EXPECT_TRUE(refused([](Layout& l) { l.header.e_shentsize = 63; }));
  EXPECT_TRUE(refused([](Layout& l) { l.header.e_shstrndx = l.header.e_shnum; }));
  EXPECT_TRUE(refused([](Layout& l) { l.header.e_shnum = 0; }));
  EXPECT_TRUE(refused([](Layout& l) { l.sections[l.header.e_shstrndx].sh_type = SHT_PROGBITS; }));
  EXPECT_TRUE(refused([](Layout& l) { l.sections[l.header.e_shstrndx].sh_size = 0; }));
  EXPECT_TRUE(refused([](Layout& l) { l.sections[1].sh_name = 41; }));
  EXPECT_TRUE(absl::IsDataLoss(CheckCubin("")));
}

}  // namespace
}  // namespace kiln::cuda
