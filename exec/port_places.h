// SPDX-License-Identifier: Apache-2.0
// PortPlaces: which inputs and outputs of a run lie in memory of the model's device, where a plan
// reads and writes them in place of copying (exec/port_places.cc says which programs can).
//
// A program whose host part needs such a port, or whose course depends on the values of one, gets
// NeedsHost for an answer; the context then runs it on copies in the host's memory
// (exec/landed_run.cc).
#ifndef KILN_EXEC_PORT_PLACES_H_
#define KILN_EXEC_PORT_PLACES_H_

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "exec/checked_program.h"

namespace kiln {

struct PortPlaces {
  std::vector<bool> inputs, outputs;  // on the device; empty: none is

  bool Input(size_t i) const { return i < inputs.size() && inputs[i]; }
  bool Output(size_t i) const { return i < outputs.size() && outputs[i]; }
  bool none() const {
    return std::count(inputs.begin(), inputs.end(), true) +
               std::count(outputs.begin(), outputs.end(), true) ==
           0;
  }
  friend bool operator==(const PortPlaces&, const PortPlaces&) = default;
};

// OK where the needed thunks only copy the buffers of these ports, whole, to the device or from it;
// else NeedsHost.
absl::Status CheckPlaces(const CheckedProgram& program, const PortPlaces& places,
                         const std::vector<bool>& needed);

absl::Status NeedsHost(absl::string_view port);
bool IsNeedsHost(const absl::Status& status);

}  // namespace kiln

#endif  // KILN_EXEC_PORT_PLACES_H_
