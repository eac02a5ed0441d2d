// SPDX-License-Identifier: Apache-2.0
// ValueVariants: variants of a model whose structure depends on the values of some inputs
// (model_source.h), such as the axes of a reduction or the number of a top-k that a caller gives
// with each run.
//
// For every new combination of those values the file is imported again, with the values as
// constants under a guard on their bytes; all other inputs stay free, and have Variants of their
// own behind it. Where the structure depends on extents that the file leaves open, such as those of
// a range that is counted in floats, an import holds for one set of shapes. The newest 16
// combinations are kept.
//
// Example: y = ReduceSum(x [n, 4], axes). The first run with axes = [1] imports for that; runs with
// another n use the same Program; axes = [0] is imported anew.
#ifndef KILN_COMPILER_VALUE_VARIANTS_H_
#define KILN_COMPILER_VALUE_VARIANTS_H_

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/keyed_mutex.h"
#include "base/mutex.h"
#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "compiler/model_source.h"
#include "compiler/variants.h"
#include "exec/provider.h"
#include "graph/onnx/import.h"

namespace kiln {

class ValueVariants {
 public:
  ValueVariants(ModelSource source, CompileOptions options, std::shared_ptr<KernelService> kernels)
      : source_(std::move(source)), options_(std::move(options)), kernels_(std::move(kernels)) {}

  // The variant that fits these inputs, and the import that it was compiled from.
  struct Made {
    std::shared_ptr<const Variant> variant;
    std::shared_ptr<const OnnxImport> import;
  };
  absl::StatusOr<Made> Make(const std::vector<InputInfo>& inputs);

 private:
  // The variants for some values of inputs, and for the shapes that the import's inputs have;
  // values not named and open extents are free.
  struct Entry {
    std::map<std::string, Tensor> values;
    std::shared_ptr<const OnnxImport> import;
    std::unique_ptr<Variants> variants;
  };
  // Null: there is none for these inputs.
  std::shared_ptr<Entry> Find(const std::vector<InputInfo>& inputs);

  const ModelSource source_;
  const CompileOptions options_;
  const std::shared_ptr<KernelService> kernels_;
  KeyedMutex<std::string> making_;  // by the shapes of inputs
  Mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);  // newest use first
};

}  // namespace kiln

#endif  // KILN_COMPILER_VALUE_VARIANTS_H_
