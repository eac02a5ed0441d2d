// SPDX-License-Identifier: Apache-2.0
// One of n parts of a model's kernels, for machines that build them together.
//
//   const absl::StatusOr<Shard> shard = Shard::Parse("2/4");
//   jobs = shard->Of(jobs);
//
// Every kernel is in exactly one part, and parts differ by one kernel at most. They are cut in the
// order of the keys, so whoever has the same model and options has the same parts.
#ifndef KILN_TOOLS_SHARD_H_
#define KILN_TOOLS_SHARD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/precompile.h"

namespace kiln {

struct Shard {
  int index = 1, count = 1;  // 1 <= index <= count

  // kInvalidArgument: not i/n with 1 <= i <= n <= 10000.
  static absl::StatusOr<Shard> Parse(const std::string& text);
  // Those of the part, in the order of their keys.
  std::vector<KernelJob> Of(std::vector<KernelJob> jobs) const;
};

// Eight digits that all parts of one series have in common: of the keys of all kernels.
std::string DigestOf(const std::vector<KernelJob>& jobs);

}  // namespace kiln

#endif  // KILN_TOOLS_SHARD_H_
