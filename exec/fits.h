// SPDX-License-Identifier: Apache-2.0
// Whether inputs are those that a model, or one variant of it, takes.
#ifndef KILN_EXEC_FITS_H_
#define KILN_EXEC_FITS_H_

#include <vector>

#include "absl/status/status.h"
#include "base/guard.h"
#include "exec/provider.h"

namespace kiln {

// Type, rank and constant extents of one that is present; only an optional one may be absent.
// kInvalidArgument names the input, the dim and both values.
absl::Status CheckPort(const PortInfo& port, const InputInfo& input);

// Whether the extents of `inputs`, which have the ranks and types of its ports, fit the shapes of
// `variant`'s ports and all its guards; `broken` tells the first guard that does not hold.
bool Fits(const Variant& variant, const std::vector<InputInfo>& inputs, const Guard** broken);

}  // namespace kiln

#endif  // KILN_EXEC_FITS_H_
