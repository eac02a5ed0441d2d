// SPDX-License-Identifier: Apache-2.0
// kiln bench --serve: one JSON request per line on stdin, one answer per line on stdout, so that a
// driver can measure Kiln in turn with other runtimes.
//
//   {"cmd": "version"}                            -> {"version": "kiln 0.1.0"}
//   {"cmd": "load", "onnx": "net.onnx", "inputs": {"x": "x.npy"}, "results": "dir/prefix"}
//       -> {"ok": true, "load_s": 1.2, "results": 3}  prepared and run once; result i is saved as
//                                                     <prefix><i>.npy
//       -> {"ok": false, "error": "why"}              the next load is tried again
//   {"cmd": "time", "n": 5, "warm": 1, "budget_s": 2}
//       -> {"ms": [..]}  n timed runs after `warm` others, fewer when the budget is spent
//   {"cmd": "quit"}                               ends, without an answer
//
// Inputs that the graph does not have are ignored: they are weights that the file holds. A "donate"
// field is ignored too: no input is written over.
#ifndef KILN_TOOLS_SERVE_H_
#define KILN_TOOLS_SERVE_H_

#include "tools/common.h"

namespace kiln {

// Serves until "quit" or the end of stdin; returns the exit code.
int Serve(const CommonOptions& options);

}  // namespace kiln

#endif  // KILN_TOOLS_SERVE_H_
