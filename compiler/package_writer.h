// SPDX-License-Identifier: Apache-2.0
// Makes a package (exec/package.h) of Programs and of kernels that a cache holds.
//
//   PackageWriter writer(inputs, outputs, options.math);
//   writer.Add(*Target::Parse("x86-64-v3"), variant);  // any number of targets and variants
//   KILN_ASSIGN_OR_RETURN(std::string bytes, writer.Encode(*service.store()));
//
// The same variants and kernels give the same bytes.
#ifndef KILN_COMPILER_PACKAGE_WRITER_H_
#define KILN_COMPILER_PACKAGE_WRITER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/target.h"
#include "base/tensor.h"
#include "compiler/machine_of.h"
#include "exec/package.pb.h"
#include "exec/provider.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"
#include "persistent_cache/store.h"

namespace kiln {

// The same kernels make the same files wherever and whenever they were built: the time it took and
// the machine that validated them stay behind.
void LeaveOutWhatWasMeasured(Entry& entry);

class PackageWriter {
 public:
  PackageWriter(const std::vector<PortInfo>& inputs, const std::vector<PortInfo>& outputs,
                MathMode math);

  // A variant without kernel handles, compiled for `target`; of two with the same Program and
  // guards the first counts.
  void Add(Target target, const Variant& variant);

  // The file. Kernels that `store` has no code of are left to the VM. kInvalidArgument: nothing was
  // added; kResourceExhausted: a constant is larger than an entry may be.
  absl::StatusOr<std::string> Encode(Store& store);

 private:
  packaged::Target& TargetOf(Target target);

  const MathMode math_;
  packaged::Package package_;
  std::map<std::string, Tensor> constants_;           // by digest; dense
  std::map<CacheKey, std::vector<int64_t>> kernels_;  // with a size class that covers all choices
};

}  // namespace kiln

#endif  // KILN_COMPILER_PACKAGE_WRITER_H_
