// SPDX-License-Identifier: Apache-2.0
#include "tests/halide_gen/difference.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernel/naive.h"

namespace kiln {

std::string Difference(const HostArray& got, const HostArray& want) {
  const size_t size = SizeOf(want.type);
  for (size_t i = 0; (i + 1) * size <= want.bytes.size(); ++i) {
    if (std::memcmp(&got.bytes[i * size], &want.bytes[i * size], size) == 0) continue;
    const uint64_t a = LoadElement(got.bytes.data(), got.type, static_cast<int64_t>(i));
    const uint64_t b = LoadElement(want.bytes.data(), want.type, static_cast<int64_t>(i));
    const DType type = ComputeType(want.type);
    if (IsFloat(type) && std::isnan(ConstValue(type, a)) && std::isnan(ConstValue(type, b)))
      continue;
    return absl::StrCat("element ", i, " of ", want.bytes.size() / size, ": got ",
                        ConstValue(type, a), " (0x", absl::Hex(a), "), want ", ConstValue(type, b),
                        " (0x", absl::Hex(b), ")");
  }
  return "";
}

}  // namespace kiln
