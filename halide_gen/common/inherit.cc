// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/inherit.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include "absl/strings/match.h"

namespace kiln {
namespace {

struct Search {
  absl::string_view name;
  int memory;  // of this process, as a file: writes to it pass over the protection of pages
};

int Touch(dl_phdr_info* object, size_t, void* data) {
  const auto& search = *static_cast<const Search*>(data);
  if (!absl::StrContains(object->dlpi_name, search.name)) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const bool is_constant = segment.p_type == PT_LOAD && (segment.p_flags & (PF_R | PF_W)) == PF_R;
    if (!is_constant || segment.p_filesz == 0) continue;
    const ElfW(Addr) at = object->dlpi_addr + segment.p_vaddr;
    char byte = 0;
    if (pread(search.memory, &byte, 1, static_cast<off_t>(at)) == 1 &&
        pwrite(search.memory, &byte, 1, static_cast<off_t>(at)) != 1) {
      return 1;
    }
  }
  return 1;
}

}  // namespace

void InheritPages(absl::string_view name) {
  Search search{name, open("/proc/self/mem", O_RDWR | O_CLOEXEC)};
  if (search.memory < 0) return;
  dl_iterate_phdr(Touch, &search);
  close(search.memory);
}

}  // namespace kiln
