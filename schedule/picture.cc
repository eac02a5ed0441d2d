// SPDX-License-Identifier: Apache-2.0
#include "schedule/picture.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedule/device.h"

namespace kiln {

std::string Picture(const Kernel& kernel, std::span<const int64_t> extents,
                    const Schedule& schedule, const Machine& machine) {
  const Price price = PriceOf(kernel, extents, machine, schedule);
  std::vector<std::string> sizes;
  for (size_t d = 0; d < extents.size(); ++d)
    sizes.push_back(absl::StrCat(kernel.dims[d].name, " = ", extents[d]));
  const std::string loops =
      kernel.num_iterated() == 0
          ? "one element\n"
          : ModelOf(machine.target).picture(kernel, extents, schedule, machine);
  return absl::StrCat(
      schedule.ToString(), "\n", loops, "price of ", absl::StrJoin(sizes, ", "),
      absl::StrFormat(": %.4g us; memory %.4g, compute %.4g, which overlap; stalls %.4g\n",
                      (price.ns + price.idle_ns) / 1000, price.memory_ns / 1000,
                      price.compute_ns / 1000, price.idle_ns / 1000));
}

}  // namespace kiln
