// SPDX-License-Identifier: Apache-2.0
// Which form of a kernel a launch takes.
#ifndef KILN_EXEC_KERNEL_FORM_H_
#define KILN_EXEC_KERNEL_FORM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "exec/provider.h"
#include "kernel/kernel.h"

namespace kiln {

// The first choice of `def` whose bounds hold for these extents.
std::optional<int> ChooseForm(const program::KernelDef& def, std::span<const int64_t> dims);

// Whether a kernel takes longer in place: a load waits for a masked store before it to be done
// where they overlap, masked lanes included, as do the end of a row and the beginning of the next.
// It waits for about as long as a long row takes.
bool RowsWait(const Kernel& kernel, int64_t step, std::span<const int64_t> dims);

// The kernel on the VM, as VmFunction. For launches with an input that has no elements
// while an output has some, as of a concat: what compiled code loads for vector lanes in which a
// guard is false lies somewhere in the operand, and there is nothing there. And for launches that
// reduce nothing: compiled code loads the first element of a row before it asks whether there is
// one, and that of an empty slice may lie behind the operand's end.
absl::StatusOr<std::shared_ptr<KernelHandle>> OnVm(const Kernel& kernel, DeviceKind device,
                                                   KernelFn run = nullptr);

}  // namespace kiln

#endif  // KILN_EXEC_KERNEL_FORM_H_
