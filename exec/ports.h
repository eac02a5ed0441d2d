// SPDX-License-Identifier: Apache-2.0
// Ports as files hold them.
#ifndef KILN_EXEC_PORTS_H_
#define KILN_EXEC_PORTS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "exec/program.pb.h"
#include "exec/provider.h"

namespace kiln {

using StoredPorts = google::protobuf::RepeatedPtrField<program::Port>;

void SetPorts(const std::vector<PortInfo>& ports, StoredPorts* out);
// kDataLoss and kInvalidArgument: no types or dims.
absl::StatusOr<std::vector<PortInfo>> GetPorts(const StoredPorts& ports);
absl::StatusOr<DType> ToDType(uint32_t number);

// kDataLoss unless the ports of a stored program are those of its model: names, types, ranks and
// extents that are numbers in the model (but for outputs of any rank), and of inputs whether they
// may be absent.
absl::Status CheckPorts(const program::Program& program, const std::vector<PortInfo>& inputs,
                        const std::vector<PortInfo>& outputs);

}  // namespace kiln

#endif  // KILN_EXEC_PORTS_H_
