// SPDX-License-Identifier: Apache-2.0
// A Script as packages hold it, and back. A stored one may be by anybody: whatever a run relies on
// is checked here, but for extents and values, which each step checks (script.cc).
#ifndef KILN_EXEC_PACKAGE_PACKAGED_SCRIPT_H_
#define KILN_EXEC_PACKAGE_PACKAGED_SCRIPT_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/package/package.pb.h"
#include "exec/provider.h"
#include "exec/script.h"

namespace kiln {

// All but constants and callees. kUnimplemented: a step is a function of the caller's.
absl::Status StoreScript(const Script& script, packaged::Script& out);

using RestoreConstantFn = std::function<absl::StatusOr<Tensor>(const packaged::Constant&)>;
using RestoreCalleeFn =
    std::function<absl::StatusOr<std::shared_ptr<VariantProvider>>(const packaged::Callee&)>;

// kDataLoss: a step reads what no step before gives, has operands of other types than its operator
// or callee takes, or the like; or the script is not that of a model with these ports.
absl::StatusOr<std::shared_ptr<const Script>> RestoreScript(const packaged::Script& stored,
                                                            const std::vector<PortInfo>& inputs,
                                                            const std::vector<PortInfo>& outputs,
                                                            const RestoreConstantFn& constant,
                                                            const RestoreCalleeFn& callee);

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_PACKAGED_SCRIPT_H_
