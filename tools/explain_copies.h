// SPDX-License-Identifier: Apache-2.0
// kiln explain, for a device with memory of its own: what is copied to it and from it in a run.
#ifndef KILN_TOOLS_EXPLAIN_COPIES_H_
#define KILN_TOOLS_EXPLAIN_COPIES_H_

#include <string>
#include <vector>

#include "exec/program.pb.h"

namespace kiln {

// A value that is copied in each run, since its first reader there needs it there. Constants are
// not among them: they are copied once.
struct DeviceCopy {
  std::string value;
  bool to_device = false;
  std::string bytes;   // a Dim as text
  std::string reader;  // the nodes that read it; empty: the caller
  std::string why;     // why the reader runs where it does
};

// In the order of the run. Thread-safe.
std::vector<DeviceCopy> CopiesOf(const program::Program& program);

}  // namespace kiln

#endif  // KILN_TOOLS_EXPLAIN_COPIES_H_
