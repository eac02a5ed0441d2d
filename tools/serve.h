// SPDX-License-Identifier: Apache-2.0
// kiln bench --serve: answers requests (tools/requests.h), so that a driver can measure Kiln in
// turn with other runtimes.
//
//   {"cmd": "load", "onnx": "net.onnx", "inputs": {"x": "x.npy"}, "results": "dir/prefix"}
//       -> {"ok": true, "load_s": 1.2, "results": 3}  result i is saved as <prefix><i>.npy
//
// Inputs that the graph does not have are ignored: they are weights that the file holds. With
// "donate": {"p": 0} result 0 is written over input p.
#ifndef KILN_TOOLS_SERVE_H_
#define KILN_TOOLS_SERVE_H_

#include "tools/common.h"

namespace kiln {

// Serves until "quit" or the end of stdin; returns the exit code.
int Serve(const CommonOptions& options);

}  // namespace kiln

#endif  // KILN_TOOLS_SERVE_H_
