// SPDX-License-Identifier: Apache-2.0
// kiln explain and kiln report, for a device with memory of its own: what is copied to it and from
// it in a run, and what runs on the CPU all the same.
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

// A kernel or library call of a program for the device that has its operands in the host's memory.
struct HostLaunch {
  std::string nodes;  // the user's
  std::string why;
};
struct HostLaunches {
  int all = 0;  // kernels and library calls of the program, wherever they run
  std::vector<HostLaunch> on_cpu;

  // "1 of 3 launches: t (the device has no top_k; the library's runs)"; empty: there is none.
  std::string ToString() const;
};

// In the order of the run. Of a program for the CPU: all of them. Thread-safe.
HostLaunches HostLaunchesOf(const program::Program& program);

}  // namespace kiln

#endif  // KILN_TOOLS_EXPLAIN_COPIES_H_
