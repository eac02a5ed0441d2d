// SPDX-License-Identifier: Apache-2.0
// The cache key of a kernel, and the table of what is in it.
//
// Two builds of a kernel that may differ in a byte have different keys; what cannot change the
// bytes is left out, so that users share kernels. Every field of CompileOptions stands in
// KeyOptions() as one or the other, and a test compares that table with the struct.
#ifndef KILN_COMPILER_KERNEL_KEY_H_
#define KILN_COMPILER_KERNEL_KEY_H_

#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "base/target.h"
#include "compiler/machine_of.h"
#include "persistent_cache/key.h"

namespace kiln {

// What is asked of code generation.
struct KernelIdentity {
  std::string text;      // canonical Kernel text
  std::string schedule;  // Schedule::ToString()
  Target target = LowestTarget();
  MathMode math = MathMode::kStrict;
};

// The section of the answer that is loaded.
const char* SectionOf(const KernelIdentity& identity);

Preimage KernelPreimage(const KernelIdentity& identity);

struct KeyOption {
  const char* name;  // field of CompileOptions
  bool in_key;
  const char* reason;  // how it gets into the key, or why it need not
};
std::span<const KeyOption> KeyOptions();

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_KEY_H_
