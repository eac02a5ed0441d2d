// SPDX-License-Identifier: Apache-2.0
// What the cache remembers of kernels that have no compiled code, and for how long it holds. An
// entry with a section "failure" says why there is none, and its "meta" under which conditions it
// was tried:
//
//   the compiler refuses the kernel       for ever: the key names the compiler
//   a build took longer than its limits   until a longer limit is given
//   nothing to validate the code on       until the probes, or KernelDef::example, are others
//   the code computed something else      for ever
//
// What passes (MayPass: no process, no memory, a helper that was killed) is never remembered.
#ifndef KILN_COMPILER_KNOWN_FAILURES_H_
#define KILN_COMPILER_KNOWN_FAILURES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/machine_of.h"
#include "persistent_cache/entry.h"

namespace kiln {

// What is asked for: the launch of KernelDef::example, and how long a build may take.
struct Attempt {
  const std::vector<int64_t>& example;
  const CompileOptions& options;
};

// Whether `entry` says that this attempt is in vain.
bool IsKnownToFail(const Entry& entry, const Attempt& attempt);

// The error of an entry that has a section "failure".
absl::Status KnownFailure(const Entry& entry);

// Lines for the meta of a build that ran out of time, and of code that nothing can be compared on.
std::map<std::string, std::string> MetaOfTimeOut(const CompileOptions& options);
std::map<std::string, std::string> MetaOfUnvalidated(const std::vector<int64_t>& example);

// Whether a failure is that of a kernel whose code could not be validated; for now: kAborted.
bool IsUnvalidated(const absl::Status& why);

// Whether what went wrong may not go wrong another time.
bool MayPass(const absl::Status& why);

}  // namespace kiln

#endif  // KILN_COMPILER_KNOWN_FAILURES_H_
