// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_model.h"

#include <cpuid.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace kiln {

const std::string& CpuModelId() {
  static const std::string* const id = [] {
    uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
    char vendor[13] = {};
    __get_cpuid(0, &eax, &ebx, &ecx, &edx);
    std::memcpy(vendor, &ebx, 4);
    std::memcpy(vendor + 4, &edx, 4);
    std::memcpy(vendor + 8, &ecx, 4);
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    const uint32_t low = eax >> 8 & 0xf;
    const uint32_t family = low == 0xf ? low + (eax >> 20 & 0xff) : low;
    const uint32_t model = (eax >> 4 & 0xf) | (eax >> 12 & 0xf0);
    return new std::string(absl::StrCat(vendor, "-", family, "-", model, "-", eax & 0xf));
  }();
  return *id;
}

}  // namespace kiln
