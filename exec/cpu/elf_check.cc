// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/elf_check.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernel/abi.h"

namespace kiln {
namespace {

constexpr uint64_t kPage = 4096;                  // correctness
constexpr uint64_t kMaxSpan = uint64_t{1} << 30;  // correctness: of addresses
constexpr int kMaxSegments = 16;                  // correctness

absl::Status Bad(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("kernel object: ", what, "; remove it from the cache"));
}

class Checker {
 public:
  explicit Checker(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<KernelElf> Run() {
    KILN_RETURN_IF_ERROR(Header());
    KILN_RETURN_IF_ERROR(Segments());
    KILN_RETURN_IF_ERROR(Dynamic());
    KILN_RETURN_IF_ERROR(HashTable());
    KILN_RETURN_IF_ERROR(Relocations());
    KILN_RETURN_IF_ERROR(Symbols());
    if (elf_.entry == 0 || elf_.imports == 0 || !abi_seen_)
      return Bad("k_argv, kiln_imports or kiln_abi is missing");
    return elf_;
  }

 private:
  bool InFile(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }

  template <typename T>
  T Get(uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  // The load segment whose file bytes (`in_file`) or memory hold [address, address + size); null if
  // none.
  const Elf64_Phdr* SegmentOf(uint64_t address, uint64_t size, bool in_file) const {
    for (const Elf64_Phdr& load : loads_) {
      const uint64_t length = in_file ? load.p_filesz : load.p_memsz;
      if (address >= load.p_vaddr && address - load.p_vaddr <= length &&
          size <= length - (address - load.p_vaddr)) {
        return &load;
      }
    }
    return nullptr;
  }

  // File offset of mapped bytes; checked by the caller with SegmentOf(..., true).
  uint64_t OffsetOf(uint64_t address) const {
    const Elf64_Phdr* load = SegmentOf(address, 0, true);
    return load->p_offset + (address - load->p_vaddr);
  }

  absl::Status Header() {
    if (!InFile(0, sizeof(Elf64_Ehdr))) return Bad("shorter than an ELF header");
    header_ = Get<Elf64_Ehdr>(0);
    const unsigned char* id = header_.e_ident;
    if (std::memcmp(id, ELFMAG, SELFMAG) != 0) return Bad("no ELF magic");
    if (id[EI_CLASS] != ELFCLASS64 || id[EI_DATA] != ELFDATA2LSB || id[EI_VERSION] != EV_CURRENT)
      return Bad("not ELF64");
    if (id[EI_OSABI] != ELFOSABI_NONE && id[EI_OSABI] != ELFOSABI_LINUX)
      return Bad("for another operating system");
    if (id[EI_ABIVERSION] != 0 || header_.e_version != EV_CURRENT)
      return Bad("of another ELF version");
    if (header_.e_machine != EM_X86_64)
      return Bad(absl::StrCat("machine ", header_.e_machine, ", expected x86-64"));
    if (header_.e_type != ET_DYN) return Bad("not a shared object");
    if (header_.e_ehsize != sizeof(Elf64_Ehdr) || header_.e_phentsize != sizeof(Elf64_Phdr))
      return Bad("odd header sizes");
    if (header_.e_phnum == 0 || header_.e_phnum > kMaxSegments)
      return Bad("odd number of segments");
    if (header_.e_phoff % 8 != 0 ||
        !InFile(header_.e_phoff, header_.e_phnum * sizeof(Elf64_Phdr))) {
      return Bad("segment table outside the file");
    }
    if (header_.e_shnum != 0 && (header_.e_shentsize != sizeof(Elf64_Shdr) ||
                                 !InFile(header_.e_shoff, header_.e_shnum * sizeof(Elf64_Shdr)))) {
      return Bad("section table outside the file");
    }
    return absl::OkStatus();
  }

  absl::Status Load(const Elf64_Phdr& segment) {
    if (!InFile(segment.p_offset, segment.p_filesz) || segment.p_filesz > segment.p_memsz)
      return Bad("segment outside the file");
    if (segment.p_memsz == 0 || segment.p_vaddr > kMaxSpan || segment.p_memsz > kMaxSpan)
      return Bad("segment too large");
    if (segment.p_align < kPage || (segment.p_align & (segment.p_align - 1)) != 0 ||
        segment.p_align > kMaxSpan ||
        segment.p_vaddr % segment.p_align != segment.p_offset % segment.p_align) {
      return Bad("segment misaligned");
    }
    // The linker reads its headers there; with protection keys, code alone is not readable.
    if ((segment.p_flags & PF_R) == 0) return Bad("segment not readable");
    if ((segment.p_flags & PF_W) != 0 && (segment.p_flags & PF_X) != 0)
      return Bad("segment writable and executable");
    if (segment.p_memsz > segment.p_filesz && (segment.p_flags & PF_W) == 0)
      return Bad("zero-filled segment not writable");
    if (!loads_.empty()) {
      const uint64_t end = loads_.back().p_vaddr + loads_.back().p_memsz;
      if ((end + kPage - 1) / kPage > segment.p_vaddr / kPage) return Bad("segments overlap");
    }
    loads_.push_back(segment);
    return absl::OkStatus();
  }

  absl::Status Segments() {
    std::vector<Elf64_Phdr> others;
    for (int i = 0; i < header_.e_phnum; ++i) {
      const auto segment =
          Get<Elf64_Phdr>(header_.e_phoff + static_cast<uint64_t>(i) * sizeof(Elf64_Phdr));
      if (segment.p_type == PT_LOAD) {
        KILN_RETURN_IF_ERROR(Load(segment));
      } else {
        others.push_back(segment);
      }
    }
    if (loads_.empty() || loads_[0].p_vaddr != 0 || loads_[0].p_offset != 0 ||
        loads_[0].p_filesz < header_.e_phoff + header_.e_phnum * sizeof(Elf64_Phdr)) {
      return Bad("headers are not loaded");
    }
    bool stack = false, dynamic = false;
    for (const Elf64_Phdr& segment : others) {
      KILN_RETURN_IF_ERROR(Other(segment, stack, dynamic));
    }
    if (!stack || !dynamic) return Bad("no stack or no dynamic segment");
    return absl::OkStatus();
  }

  absl::Status Other(const Elf64_Phdr& segment, bool& stack, bool& dynamic) {
    if (segment.p_type == PT_NULL) return absl::OkStatus();
    if (segment.p_type == PT_GNU_STACK) {
      stack = true;
      return (segment.p_flags & PF_X) != 0 ? Bad("executable stack") : absl::OkStatus();
    }
    const bool in_file = segment.p_type != PT_GNU_RELRO;
    const Elf64_Phdr* load = SegmentOf(segment.p_vaddr, segment.p_memsz, in_file);
    if (load == nullptr ||
        (in_file && (segment.p_filesz != segment.p_memsz ||
                     segment.p_offset - load->p_offset != segment.p_vaddr - load->p_vaddr))) {
      return Bad("segment outside the loaded ones");
    }
    switch (segment.p_type) {
      case PT_PHDR:
        return segment.p_offset == header_.e_phoff ? absl::OkStatus() : Bad("odd header segment");
      case PT_GNU_EH_FRAME:
        return absl::OkStatus();
      case PT_GNU_RELRO:
        return (load->p_flags & PF_W) != 0 ? absl::OkStatus() : Bad("odd read-only segment");
      case PT_NOTE:
      case PT_GNU_PROPERTY:
        return Notes(segment);
      case PT_DYNAMIC:
        if (dynamic || (load->p_flags & PF_W) == 0 || segment.p_vaddr % 8 != 0)
          return Bad("odd dynamic segment");
        dynamic = true;
        dynamic_ = segment;
        return absl::OkStatus();
      default:
        return Bad(absl::StrCat("segment of type ", segment.p_type, " is not allowed"));
    }
  }

  // The linker trusts sizes in notes.
  absl::Status Notes(const Elf64_Phdr& segment) {
    const uint64_t align = segment.p_align == 8 ? 8 : 4;
    if (segment.p_vaddr % align != 0) return Bad("note misaligned");
    uint64_t at = segment.p_offset;
    const uint64_t end = at + segment.p_filesz;
    while (end - at >= sizeof(Elf64_Nhdr)) {
      const auto note = Get<Elf64_Nhdr>(at);
      const uint64_t name = (uint64_t{note.n_namesz} + align - 1) / align * align;
      const uint64_t desc = (uint64_t{note.n_descsz} + align - 1) / align * align;
      if (name + desc > end - at - sizeof(Elf64_Nhdr)) return Bad("note outside its segment");
      if (note.n_type == NT_GNU_PROPERTY_TYPE_0)
        KILN_RETURN_IF_ERROR(Properties(at + sizeof(Elf64_Nhdr) + name, note.n_descsz));
      at += sizeof(Elf64_Nhdr) + name + desc;
    }
    return absl::OkStatus();
  }

  absl::Status Properties(uint64_t at, uint64_t size) {
    const uint64_t end = at + size;
    while (end - at >= 8) {
      const uint64_t data = (uint64_t{Get<uint32_t>(at + 4)} + 7) / 8 * 8;
      if (data > end - at - 8) return Bad("property outside its note");
      at += 8 + data;
    }
    return at == end ? absl::OkStatus() : Bad("odd property note");
  }

  absl::Status Dynamic() {
    bool ended = false;
    for (uint64_t at = 0; !ended; at += sizeof(Elf64_Dyn)) {
      if (at + sizeof(Elf64_Dyn) > dynamic_.p_filesz) return Bad("dynamic segment has no end");
      const auto entry = Get<Elf64_Dyn>(dynamic_.p_offset + at);
      tags_.insert(entry.d_tag);
      switch (entry.d_tag) {
        case DT_NULL:
          ended = true;
          break;
        case DT_STRTAB:
          strings_ = entry.d_un.d_ptr;
          break;
        case DT_STRSZ:
          strings_size_ = entry.d_un.d_val;
          break;
        case DT_SYMTAB:
          symbols_ = entry.d_un.d_ptr;
          break;
        case DT_GNU_HASH:
          hash_ = entry.d_un.d_ptr;
          break;
        case DT_RELA:
          rela_ = entry.d_un.d_ptr;
          break;
        case DT_RELASZ:
          rela_size_ = entry.d_un.d_val;
          break;
        case DT_SONAME:
          soname_ = entry.d_un.d_val;
          break;
        case DT_SYMENT:
          if (entry.d_un.d_val != sizeof(Elf64_Sym)) return Bad("odd symbol size");
          break;
        case DT_RELAENT:
          if (entry.d_un.d_val != sizeof(Elf64_Rela)) return Bad("odd relocation size");
          break;
        case DT_FLAGS:
          if ((entry.d_un.d_val & ~uint64_t{DF_BIND_NOW | DF_SYMBOLIC}) != 0)
            return Bad("odd flags");
          break;
        case DT_FLAGS_1:
          if ((entry.d_un.d_val & ~uint64_t{DF_1_NOW}) != 0) return Bad("odd flags");
          break;
        case DT_BIND_NOW:
        case DT_SYMBOLIC:
        case DT_RELACOUNT:  // checked below: all are relative
          break;
        default:
          return Bad(absl::StrCat("dynamic tag ", entry.d_tag, " is not allowed"));
      }
    }
    // The linker takes these to be there: all of them, or of relocations none.
    const auto count = [this](std::initializer_list<Elf64_Sxword> tags) {
      return std::count_if(tags.begin(), tags.end(),
                           [this](Elf64_Sxword tag) { return tags_.count(tag) > 0; });
    };
    const auto relocations = count({DT_RELA, DT_RELASZ, DT_RELAENT});
    if (count({DT_STRTAB, DT_STRSZ, DT_SYMTAB, DT_SYMENT, DT_GNU_HASH}) != 5 ||
        (relocations != 0 && relocations != 3) ||
        (relocations == 0 && tags_.count(DT_RELACOUNT) > 0))
      return Bad("dynamic tags are missing");
    if (SegmentOf(strings_, strings_size_, true) == nullptr || strings_size_ == 0 ||
        soname_ >= strings_size_) {
      return Bad("strings outside the file");
    }
    if (bytes_[OffsetOf(strings_) + strings_size_ - 1] != '\0') return Bad("strings have no end");
    return absl::OkStatus();
  }

  // Walks every chain, which also gives the number of symbols: the linker follows them without
  // looking at bounds.
  absl::Status HashTable() {
    if (hash_ % 8 != 0 || SegmentOf(hash_, 16, true) == nullptr) return Bad("no hash table");
    const uint64_t base = OffsetOf(hash_);
    const uint64_t buckets = Get<uint32_t>(base), first = Get<uint32_t>(base + 4),
                   words = Get<uint32_t>(base + 8);
    const uint64_t fixed = 16 + words * 8 + buckets * 4;
    if (buckets == 0 || words == 0 || (words & (words - 1)) != 0 ||
        Get<uint32_t>(base + 12) >= 64 || SegmentOf(hash_, fixed, true) == nullptr) {
      return Bad("odd hash table");
    }
    const uint64_t chains = hash_ + fixed;
    hash_fixed_ = fixed;
    first_hashed_ = num_symbols_ = first;
    for (uint64_t b = 0; b < buckets; ++b) {
      uint64_t symbol = Get<uint32_t>(base + 16 + words * 8 + b * 4);
      if (symbol == 0) continue;
      // Linkers write the symbols bucket by bucket; chains that shared some could be as long as the
      // file, each.
      if (symbol < first || symbol < num_symbols_) return Bad("odd hash table");
      for (;; ++symbol) {
        const uint64_t link = chains + (symbol - first) * 4;
        if (SegmentOf(link, 4, true) == nullptr) return Bad("hash chain outside the file");
        if ((Get<uint32_t>(OffsetOf(link)) & 1) != 0) break;
      }
      num_symbols_ = std::max(num_symbols_, symbol + 1);
    }
    if (symbols_ % 8 != 0 || num_symbols_ > bytes_.size() ||
        SegmentOf(symbols_, num_symbols_ * sizeof(Elf64_Sym), true) == nullptr) {
      return Bad("symbols outside the file");
    }
    return absl::OkStatus();
  }

  absl::Status Relocations() {
    if (rela_size_ == 0) return absl::OkStatus();
    if (rela_ % 8 != 0 || rela_size_ % sizeof(Elf64_Rela) != 0 ||
        SegmentOf(rela_, rela_size_, true) == nullptr) {
      return Bad("relocations outside the file");
    }
    for (uint64_t at = 0; at < rela_size_; at += sizeof(Elf64_Rela)) {
      const auto rela = Get<Elf64_Rela>(OffsetOf(rela_) + at);
      const Elf64_Phdr* load = SegmentOf(rela.r_offset, 8, true);
      if (ELF64_R_TYPE(rela.r_info) != R_X86_64_RELATIVE || load == nullptr ||
          (load->p_flags & PF_W) == 0) {
        return Bad("relocation that is not allowed");
      }
      if (IsOfLinker(rela.r_offset)) return Bad("relocation of what the linker reads");
    }
    return absl::OkStatus();
  }

  // Whether one of the 8 bytes at `address` is in a table that was checked as it is in the file.
  bool IsOfLinker(uint64_t address) const {
    const uint64_t chains = (num_symbols_ - first_hashed_) * 4;
    const std::pair<uint64_t, uint64_t> tables[] = {
        {0, header_.e_phoff + header_.e_phnum * sizeof(Elf64_Phdr)},
        {dynamic_.p_vaddr, dynamic_.p_memsz},
        {strings_, strings_size_},
        {symbols_, num_symbols_ * sizeof(Elf64_Sym)},
        {hash_, hash_fixed_ + chains},
        {rela_, rela_size_}};
    return std::any_of(std::begin(tables), std::end(tables), [&](const auto& table) {
      return address + 8 > table.first && address < table.first + table.second;
    });
  }

  absl::Status Symbols() {
    for (uint64_t i = 1; i < num_symbols_; ++i) {
      const auto symbol = Get<Elf64_Sym>(OffsetOf(symbols_) + i * sizeof(Elf64_Sym));
      if (symbol.st_name >= strings_size_) return Bad("symbol without a name");
      if (symbol.st_shndx == SHN_UNDEF) return Bad("undefined symbol");
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if (type != STT_FUNC && type != STT_OBJECT)
        return Bad("symbol of a kind that is not allowed");  // no code at look-up
      const absl::string_view name(bytes_.data() + OffsetOf(strings_) + symbol.st_name);
      KILN_RETURN_IF_ERROR(Symbol(name, symbol));
    }
    return absl::OkStatus();
  }

  absl::Status Symbol(absl::string_view name, const Elf64_Sym& symbol) {
    const uint64_t at = symbol.st_value;
    if (name == "k_argv") {
      const Elf64_Phdr* load = SegmentOf(at, 1, true);
      if (load == nullptr || (load->p_flags & PF_X) == 0) return Bad("k_argv is not code");
      elf_.entry = at;
    } else if (name == "kiln_imports") {
      constexpr uint64_t kSize = 8 * kNumImports;  // correctness
      const Elf64_Phdr* load = SegmentOf(at, kSize, false);
      if (load == nullptr || (load->p_flags & PF_W) == 0 || at % 8 != 0 ||
          symbol.st_size != kSize) {
        return Bad(absl::StrCat("import table of ", symbol.st_size, " bytes, expected ", kSize,
                                " in writable memory"));
      }
      if (at < load->p_vaddr + load->p_filesz) return Bad("import table is not zero");
      elf_.imports = at;
      elf_.imports_alone = at % kPage == 0;
    } else if (name == "kiln_abi") {
      if (SegmentOf(at, 4, true) == nullptr) return Bad("kiln_abi outside the file");
      const auto abi = Get<uint32_t>(OffsetOf(at));
      if (abi != kKernelAbi)
        return Bad(absl::StrCat("kernel interface ", abi, ", expected ", kKernelAbi));
      abi_seen_ = true;
    }
    return absl::OkStatus();
  }

  absl::string_view bytes_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Phdr> loads_;
  Elf64_Phdr dynamic_ = {};
  uint64_t strings_ = 0, strings_size_ = 0, symbols_ = 0, hash_ = 0, rela_ = 0, rela_size_ = 0,
           soname_ = 0;
  std::set<Elf64_Sxword> tags_;  // of the dynamic segment
  uint64_t num_symbols_ = 0;
  uint64_t hash_fixed_ = 0, first_hashed_ = 0;  // bytes before the chains; symbols without one
  bool abi_seen_ = false;
  KernelElf elf_;
};

}  // namespace

absl::StatusOr<KernelElf> CheckKernelElf(absl::string_view bytes) { return Checker(bytes).Run(); }

}  // namespace kiln
