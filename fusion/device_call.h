// SPDX-License-Identifier: Apache-2.0
// Whose a library operator's call is: that of a library of the device, or the host's.
#ifndef KILN_FUSION_DEVICE_CALL_H_
#define KILN_FUSION_DEVICE_CALL_H_

#include "base/library_set.h"
#include "base/target.h"
#include "graph/graph.h"

namespace kiln {

// What a graph is compiled for. Calls of the device's libraries take along what these can do
// (DeviceModel::takes_post_op), all others are the host's.
struct LibraryRules {
  DeviceKind device = DefaultDevice();
  LibrarySet libraries = kHostLibrary;  // that there are
  bool fast = false;                    // fast math
};

// Whether one of the libraries of the device computes the node there.
bool IsDeviceCall(const Graph& graph, const Node& node, const LibraryRules& rules);

}  // namespace kiln

#endif  // KILN_FUSION_DEVICE_CALL_H_
