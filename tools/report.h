// SPDX-License-Identifier: Apache-2.0
// Parts of results that several verbs print, as text and as JSON.
#ifndef KILN_TOOLS_REPORT_H_
#define KILN_TOOLS_REPORT_H_

#include <string>
#include <vector>

#include "base/compare.h"
#include "base/tensor.h"
#include "compiler/kernel_service.h"
#include "compiler/program_cache.h"
#include "kiln/model.h"
#include "nlohmann/json_fwd.hpp"

namespace kiln {

class Package;  // exec/package/package.h

nlohmann::json ToJson(const KernelCounts& counts);
// Those of a package have been made: what runs as code counts as cached.
KernelCounts CountsOfPackage(const Package& package);
nlohmann::json ToJson(const WeightCounts& counts);
nlohmann::json ToJson(const Comparison& comparison);
nlohmann::json ToJson(const PortInfo& port);

// "f32 [1, 214]"
std::string Describe(const Tensor& tensor);
// The first elements: "0.25 -1 3 ..."
std::string FirstElements(const Tensor& tensor, int64_t most);
// "12 kernels: 10 cached, 2 built, 0 on the VM, 96 ms"
std::string Describe(const KernelCounts& counts);
// "weights: 97.5 MiB mapped, 0 B copied"
std::string Describe(const WeightCounts& counts);

// The widest cell of each column of a table.
std::vector<size_t> ColumnWidths(const std::vector<std::vector<std::string>>& rows);
// Columns padded to equal width, with a gap between them; the first row is the head.
inline constexpr size_t kColumnGap = 2;
std::string Table(const std::vector<std::vector<std::string>>& rows);
// "1.25", "980": three significant digits, for tables.
std::string Short(double value);
// "3.2 MiB"
std::string Bytes(int64_t bytes);

}  // namespace kiln

#endif  // KILN_TOOLS_REPORT_H_
