// SPDX-License-Identifier: Apache-2.0
#include "fusion/constant_kernel.h"

#include <vector>

#include "base/status_macros.h"
#include "fusion/lower.h"
#include "kernel/naive.h"

namespace kiln {

absl::StatusOr<Tensor> EvaluateConstants(const Graph& graph, const Group& group) {
  const Value& value = graph.value(group.outputs[0]);
  KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered, LowerGroup(graph, group));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> extents, Evaluate(lowered.dims, {}));
  std::vector<Tensor> kept;  // dense copies live until the kernel has run
  std::vector<NaiveBuffer> inputs;
  for (size_t k = 0; k < lowered.inputs.size(); ++k) {
    const Tensor& constant = *graph.value(lowered.inputs[k]).constant;
    kept.push_back(constant.is_dense() ? constant : constant.Clone());
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Evaluate(lowered.input_shapes[k], {}));
    inputs.push_back({kept.back().data(), DenseStrides(shape)});
  }
  std::vector<uint64_t> params;
  for (const CanonicalKernel::ParamValue& param : lowered.canonical.params)
    params.push_back(param.bits);
  Tensor result = Tensor::Allocate(value.type, *Constant(value.shape));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Evaluate(lowered.output_shapes[0], {}));
  const NaiveBuffer output{result.data(), DenseStrides(shape)};
  KILN_RETURN_IF_ERROR(EvalKernel(lowered.canonical.kernel, inputs, extents, params, {&output, 1}));
  return result;
}

}  // namespace kiln
