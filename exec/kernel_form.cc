// SPDX-License-Identifier: Apache-2.0
#include "exec/kernel_form.h"

#include <utility>

#include "base/status_macros.h"

namespace kiln {

std::optional<int> ChooseForm(const program::KernelDef& def, std::span<const int64_t> dims) {
  for (int j = 0; j < def.choices_size(); ++j) {
    const program::KernelChoice& choice = def.choices(j);
    bool holds = true;
    for (int d = 0; d < choice.at_most_size(); ++d) {
      holds &= choice.at_most(d) == -1 || dims[static_cast<size_t>(d)] <= choice.at_most(d);
    }
    if (holds) return j;
  }
  return std::nullopt;
}

bool RowsWait(const Kernel& kernel, int64_t step, std::span<const int64_t> dims) {
  constexpr int64_t kLongRow = 200;  // speed
  if (kernel.num_iterated() < 2 || step <= 1) return false;
  const int64_t row = dims[static_cast<size_t>(kernel.innermost())];
  return row < kLongRow && row % step != 0;
}

absl::StatusOr<std::shared_ptr<KernelHandle>> OnVm(const Kernel& kernel, DeviceKind device,
                                                   KernelFn run) {
  KILN_ASSIGN_OR_RETURN(auto function, VmFunction(kernel, device, run));
  return std::make_shared<KernelHandle>(std::move(function));
}

}  // namespace kiln
