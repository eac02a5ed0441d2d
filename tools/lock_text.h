// SPDX-License-Identifier: Apache-2.0
// What compilation makes of a model, as a small text to review and keep beside it: a head, and
// blocks between empty lines.
//
//   kiln lock 1
//   options: level 3, jit 2, math strict, rules priced, choose heuristic
//   input "x" f32 [n, 64]
//   output "y" f32 [n, 64]
//
//   variant x86-64-v3 where n != 1
//   kernel 5a5e19e2a7c75e02 mul+softmax
//     any extents: row_reduction step=64 task=8192 folded=16 stored=0,2,4 in_place=0:0
//   launch kernel 5a5e19e2a7c75e02 "scaled+masked": 512*n bytes
//   launch matmul "fc" {transpose_b=1} relu: 4*n*m + 1024 bytes
//   total 2 launches, 512*n + 4*n*m + 1024 bytes; program 0d2a9c41b7f3
//
//   plan x86-64-v3 "x" [2, 64]
//   arena 1024 bytes, lower bound 1024, sum 2048; constants 1024 bytes
//
// A model with branches, loops or sizes that data decide is several programs, and a script says
// what runs when: "script", a line for each step, and a digest of what the steps read and give.
//
// A kernel's number is the digest of its text (kernel/kernel.h); a schedule stands for the extents
// that it is chosen for, "at most" in the order of the kernel's dims, -1 without bound. Bytes are
// those of the operands of a launch. The program's digest covers what the lines do not say. A plan
// is that of one thread. The same model and options give the same text in any folder, with any
// number of threads; with `choose heuristic`, where the cache has the same tune records.
#ifndef KILN_TOOLS_LOCK_TEXT_H_
#define KILN_TOOLS_LOCK_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "persistent_cache/store.h"
#include "tools/common.h"
#include "tools/model_kernels.h"

namespace kiln {

struct LockText {
  std::string head;                 // lines, as all blocks
  std::vector<std::string> blocks;  // each once

  std::string ToString() const;
  // kInvalidArgument: no lock, or of another version; both are named.
  static absl::StatusOr<LockText> Parse(absl::string_view text);
};

// That of the model for the targets and the sets of inputs of the flags (model_kernels.h), and for
// any. `package`: as it is compiled into a package. Nothing is built or measured; tune records are
// looked up in `store`, which may be null. Errors as ForEachGraph and CompileGraph.
absl::StatusOr<LockText> LockOf(const ModelFlags& flags, const CommonOptions& common, bool package,
                                Store* store);

// What of `made` is not in `locked`, as a diff against what is nearest there; "": nothing.
std::string NotLocked(const LockText& locked, const LockText& made);

}  // namespace kiln

#endif  // KILN_TOOLS_LOCK_TEXT_H_
