// SPDX-License-Identifier: Apache-2.0
// Archives of NumPy, as numpy.savez writes them: a ZIP file of .npy files that are stored, not
// compressed.
#ifndef KILN_TOOLS_NPZ_H_
#define KILN_TOOLS_NPZ_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor.h"

namespace kiln {

// The arrays by name, without ".npy", in the order of the archive. Files are untrusted. kDataLoss:
// damaged; kUnimplemented: compressed, encrypted or of ZIP64, and what to write instead;
// kInvalidArgument: a name that stands twice; and the codes of ReadNpy.
absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadNpz(absl::string_view path);
absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ParseNpz(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_TOOLS_NPZ_H_
