// SPDX-License-Identifier: Apache-2.0
// Runs a Grouping on the naive kernel evaluator: what fusion says a graph means, without schedules
// or code generation.
#ifndef KILN_TESTS_FUSION_RUN_GROUPS_H_
#define KILN_TESTS_FUSION_RUN_GROUPS_H_

#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "fusion/group.h"
#include "fusion/lower.h"
#include "kernel/naive.h"

namespace kiln {

using Values = std::map<ValueId, Tensor>;

inline absl::Status RunKernelGroup(const Graph& graph, const Group& group,
                                   const SymbolValues& symbols, Values& values) {
  KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered, LowerGroup(graph, group));
  KILN_RETURN_IF_ERROR(Verify(lowered.canonical.kernel));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> extents, Evaluate(lowered.dims, symbols));
  std::vector<NaiveBuffer> inputs, outputs;
  for (size_t k = 0; k < lowered.inputs.size(); ++k) {
    if (values.count(lowered.inputs[k]) == 0)
      return absl::InternalError("an input is not made yet");
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                          Evaluate(lowered.input_shapes[k], symbols));
    const Tensor& value = values[lowered.inputs[k]];
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    if (elements != value.num_elements())
      return absl::InternalError("an input has other elements than its kernel reads");
    inputs.push_back({value.data(), DenseStrides(shape)});
  }
  std::vector<uint64_t> params;
  for (const CanonicalKernel::ParamValue& param : lowered.canonical.params)
    params.push_back(param.bits);
  for (size_t k = 0; k < lowered.outputs.size(); ++k) {
    const Value& value = graph.value(lowered.outputs[k]);
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, Evaluate(value.shape, symbols));
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> seen,
                          Evaluate(lowered.output_shapes[k], symbols));
    values[lowered.outputs[k]] = Tensor::Allocate(value.type, shape);
    outputs.push_back({values[lowered.outputs[k]].data(), DenseStrides(seen)});
  }
  return EvalKernel(lowered.canonical.kernel, inputs, extents, params, outputs);
}

// The outputs of a graph without library and host nodes.
inline absl::StatusOr<std::vector<Tensor>> RunGroups(const Graph& graph, const Grouping& grouping,
                                                     const std::vector<Tensor>& inputs,
                                                     const SymbolValues& symbols) {
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].constant)
      values[ValueId{static_cast<int32_t>(i)}] = *graph.values()[i].constant;
  }
  for (const Group& group : grouping.groups) {
    if (group.kind == Group::Kind::kKernel) {
      KILN_RETURN_IF_ERROR(RunKernelGroup(graph, group, symbols, values));
      continue;
    }
    if (group.kind != Group::Kind::kView) return absl::UnimplementedError(Name(group.kind));
    const Tensor& source = values.at(graph.node(group.nodes[0]).inputs[0]);
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                          Evaluate(graph.value(group.outputs[0]).shape, symbols));
    values[group.outputs[0]] =
        Tensor::View(source.data(), source.dtype(), shape, {}, source.owner());
  }
  std::vector<Tensor> results;
  for (const Graph::Output& output : graph.outputs()) results.push_back(values.at(output.value));
  return results;
}

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_RUN_GROUPS_H_
