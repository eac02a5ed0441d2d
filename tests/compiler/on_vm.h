// SPDX-License-Identifier: Apache-2.0
// Options under which a model runs alone: on the VM, without a cache, on the calling thread.
#ifndef KILN_TESTS_COMPILER_ON_VM_H_
#define KILN_TESTS_COMPILER_ON_VM_H_

#include "compiler/machine_of.h"

namespace kiln {

inline CompileOptions OnVm() {
  CompileOptions options;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  options.threads = 1;
  return options;
}

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_ON_VM_H_
