// SPDX-License-Identifier: Apache-2.0
// Serves requests in children of this process, so that an abort of LLVM costs one kernel.
//
// All children are forked from the same state, before anything but WarmUp was compiled: Halide
// numbers the names it makes up per process, so equal requests give equal bytes.
#ifndef KILN_HALIDE_GEN_COMMON_WORKER_H_
#define KILN_HALIDE_GEN_COMMON_WORKER_H_

#include "halide_gen/common/protocol.h"

namespace kiln {

CodegenHello Hello();

// Runs one request in a child with limits on time and memory. Never fails: every mishap is an
// answer.
CodegenAnswer Serve(const CodegenRequest& request);

// Says hello on stdout, then answers the requests on stdin (base/helper_main.h), all of them
// `without` these passes. Returns the exit status.
int ServeAll(const std::vector<std::string>& without = {});

// Clears the environment but for what is known to be harmless: HL_* and LD_* change code.
void ScrubEnvironment();

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_WORKER_H_
