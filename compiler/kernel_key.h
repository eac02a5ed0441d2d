// SPDX-License-Identifier: Apache-2.0
// The cache key of a kernel, and the table of what is in it.
//
// Two builds of a kernel that may differ in a byte have different keys; what cannot change the
// bytes is left out, so that users share kernels. Every field of CompileOptions stands in
// KeyOptions() as one or the other, and a test compares that table with the struct.
#ifndef KILN_COMPILER_KERNEL_KEY_H_
#define KILN_COMPILER_KERNEL_KEY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <vector>

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
  std::string assembler = {};  // of the machine code beside it (assembler.h); empty: none
};

// With the assembler of this process.
KernelIdentity IdentityOf(std::string text, std::string schedule, Target target, MathMode math);

// The section of the answer that is loaded.
const char* SectionOf(const KernelIdentity& identity);
// With those that it needs, and what an assembler makes of it.
std::vector<std::string> SectionsOf(const KernelIdentity& identity);

Preimage KernelPreimage(const KernelIdentity& identity);

struct KeyOption {
  const char* name = nullptr;  // field of CompileOptions
  bool in_key = false;
  const char* reason = nullptr;  // how it gets into the key, or why it need not
};
std::span<const KeyOption> KeyOptions();

// What is in no key, neither a kernel's nor a Program's (program_cache.h), for the same reason.
inline constexpr KeyOption kKeylessOptions[] = {
    {"prover", false, "the older name of `validator`"},
    {"dump_code", false, "only looks"},
    {"on_plan", false, "only looks"},
    {"on_thunk", false, "only looks"},
    {"runtime", false, "decides how a model runs"},
    {"states", false, "decides how a model runs"},
    {"temporaries", false, "decides how a model runs"},
    {"output_memory", false, "decides how a model runs"},
    {"check_first_run", false, "decides how a model runs"},
    {"batch_invariant", false, "decides how a model runs"},
    {"record_level", false, "decides how a model runs"},
    {"shared_arena", false, "decides how a model runs"},
    {"on_start", false, "decides how a model runs"},
    {"on_finish", false, "decides how a model runs"},
    {"kernels", false, "shares what is built under the same keys"},
};

// A table's own rows, then those.
template <size_t kOwn>
constexpr auto WithKeylessOptions(const KeyOption (&own)[kOwn]) {
  std::array<KeyOption, kOwn + std::size(kKeylessOptions)> all{};
  std::copy(std::begin(own), std::end(own), all.begin());
  std::copy(std::begin(kKeylessOptions), std::end(kKeylessOptions), all.begin() + kOwn);
  return all;
}

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_KEY_H_
