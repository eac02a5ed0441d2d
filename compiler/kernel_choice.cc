// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_choice.h"

namespace kiln {

void SetChoice(const Schedule& schedule, const SizeClass& sizes, program::KernelChoice* choice) {
  choice->set_schedule(schedule.ToString());
  choice->set_row_step(schedule.Info().row_step);
  for (size_t d = 0; d < sizes.at_most.size(); ++d) {
    const int64_t bound = sizes.at_most[d];
    choice->add_at_most(bound == kUnbounded ? -1 : bound);
    if (bound != kUnbounded && !sizes.IsExtent(d)) choice->add_open(static_cast<int32_t>(d));
  }
  for (const auto& [input, output] : schedule.in_place) {
    choice->add_in_place(input);
    choice->add_in_place(output);
  }
}

SizeClass ClassOf(const program::KernelChoice& choice) {
  SizeClass sizes;
  for (const int64_t bound : choice.at_most())
    sizes.at_most.push_back(bound < 0 ? kUnbounded : bound);
  sizes.open.resize(sizes.at_most.size());
  for (const int32_t dim : choice.open()) {
    if (dim >= 0 && static_cast<size_t>(dim) < sizes.open.size())
      sizes.open[static_cast<size_t>(dim)] = true;
  }
  return sizes;
}

}  // namespace kiln
