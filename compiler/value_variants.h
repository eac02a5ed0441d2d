// SPDX-License-Identifier: Apache-2.0
// ValueVariants: variants of an ONNX file whose structure depends on the values of some inputs,
// such as the axes of a reduction or the number of a top-k that a caller gives with each run.
//
// For every new combination of those values the file is imported again, with the values as
// constants under a guard on their bytes; all other inputs stay free, and have Variants of their
// own behind it. Where the structure depends on extents that the file leaves open, such as the
// number of steps of an LSTM, an import holds for one set of shapes. The newest 16 combinations are
// kept.
//
// Example: y = ReduceSum(x [n, 4], axes). The first run with axes = [1] imports for that; runs with
// another n use the same Program; axes = [0] is imported anew.
#ifndef KILN_COMPILER_VALUE_VARIANTS_H_
#define KILN_COMPILER_VALUE_VARIANTS_H_

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "kiln/compiler/kernel_service.h"
#include "kiln/compiler/options.h"
#include "kiln/compiler/variants.h"
#include "kiln/exec/provider.h"
#include "kiln/graph/onnx/import.h"

namespace kiln {

class ValueVariants : public VariantProvider {
 public:
  // `import` is that of the file at `path` without values. The file is read again when a variant is
  // made.
  static absl::StatusOr<std::shared_ptr<ValueVariants>> Create(absl::string_view path,
                                                               const OnnxImport& import,
                                                               const CompileOptions& options);

  const std::vector<PortInfo>& inputs() const override { return inputs_; }
  const std::vector<PortInfo>& outputs() const override { return outputs_; }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(
      const std::vector<InputFacts>& inputs) override;

  // The same, with the import for these values.
  struct Made {
    std::shared_ptr<const Variant> variant;
    std::shared_ptr<const OnnxImport> import;
  };
  absl::StatusOr<Made> Make(const std::vector<InputFacts>& inputs);

 private:
  ValueVariants(absl::string_view path, CompileOptions options,
                std::shared_ptr<KernelService> kernels);

  // The variants for some values of inputs, and for the shapes that the import's inputs have;
  // values not named and open extents are free.
  struct Entry {
    std::map<std::string, Tensor> values;
    std::shared_ptr<const OnnxImport> import;
    std::unique_ptr<Variants> variants;
  };

  const std::string path_;
  const CompileOptions options_;
  const std::shared_ptr<KernelService> kernels_;
  std::vector<PortInfo> inputs_, outputs_;
  absl::Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // newest use first
};

}  // namespace kiln

#endif  // KILN_COMPILER_VALUE_VARIANTS_H_
