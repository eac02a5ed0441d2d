// SPDX-License-Identifier: Apache-2.0
// What a plan and a run of it come to: memory, launches, time.
#ifndef KILN_EXEC_REPORT_H_
#define KILN_EXEC_REPORT_H_

#include <cstdint>
#include <string>

namespace kiln {

// What one context's current plan looks like: memory in bytes, work in counts.
struct PlanReport {
  int64_t arena = 0, lower_bound = 0, sum = 0, constants = 0;
  int kernel_launches = 0, library_launches = 0, other_launches = 0;
  int vm_launches = 0;      // of the kernel launches, those on the VM
  int64_t bytes_moved = 0;  // bytes read and written by all launches
};

// Time of one thunk in a profiled run.
struct ThunkTime {
  std::string kind, name;  // kernel, library, copy, host; the user's nodes
  double ms = 0;
  int64_t bytes = 0;
  bool vm = false;
};

}  // namespace kiln

#endif  // KILN_EXEC_REPORT_H_
