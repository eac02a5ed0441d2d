// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/ports.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"

namespace kiln {

void SetPorts(const std::vector<PortInfo>& ports, StoredPorts* out) {
  for (const PortInfo& port : ports) {
    program::Port* const made = out->Add();
    made->set_name(port.name);
    made->set_dtype(static_cast<uint32_t>(port.type));
    made->set_optional(port.optional);
    for (const Dim& extent : port.shape) made->add_shape(extent.ToString());
  }
}

absl::StatusOr<DType> ToDType(uint32_t number) {
  if (number < static_cast<uint32_t>(kNumDTypes)) return static_cast<DType>(number);
  return absl::DataLossError(absl::StrCat("element type ", number, " is unknown"));
}

absl::StatusOr<std::vector<PortInfo>> GetPorts(const StoredPorts& ports) {
  std::vector<PortInfo> out;
  for (const program::Port& port : ports) {
    PortInfo made;
    made.name = port.name();
    made.optional = port.optional();
    KILN_ASSIGN_OR_RETURN(made.type, ToDType(port.dtype()));
    for (const std::string& text : port.shape()) {
      KILN_ASSIGN_OR_RETURN(Dim extent, Dim::Parse(text));
      made.shape.push_back(std::move(extent));
    }
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace kiln
