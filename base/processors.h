// SPDX-License-Identifier: Apache-2.0
// How many processors this process may use at once.
#ifndef KILN_BASE_PROCESSORS_H_
#define KILN_BASE_PROCESSORS_H_

#include <string>

namespace kiln {

// The processors of the calling thread's affinity mask, and no more than the CPU quota of its
// control group allows: a container with 2.5 processors has 3. At least 1. Reads the files of the
// control group: some 50 us.
int Processors();

// What a quota allows, rounded up, or INT_MAX without one: the least of the group's and of those
// above it. `groups` is the text of /proc/self/cgroup, `root` where control groups are mounted
// (versions 1 and 2).
int QuotaProcessors(const std::string& groups, const std::string& root);

}  // namespace kiln

#endif  // KILN_BASE_PROCESSORS_H_
