// SPDX-License-Identifier: Apache-2.0
// Nodes whose inputs are all constants are evaluated by the kernel that they would be: the bits are
// those of a run without this pass. Broadcasts are left alone, since a kernel reads the small
// operand as often as it likes.
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fusion/constant_kernel.h"
#include "fusion/node_reads.h"
#include "fusion/pass.h"
#include "graph/op.h"

namespace kiln {
namespace {

// Larger results must not be much larger than what they are made of.
constexpr int64_t kSmallBytes = 64 << 10;  // speed

bool Foldable(const Graph& graph, const Node& node, const PassContext& context) {
  const OpKind kind = node.op->kind;
  if (kind != OpKind::kScalar && kind != OpKind::kReduce && kind != OpKind::kIndex) return false;
  int64_t input_bytes = 0;
  for (const ValueId input : node.inputs) {
    if (!input.valid()) continue;
    const std::optional<Tensor>& constant = graph.value(input).constant;
    if (!constant) return false;
    input_bytes += constant->size_bytes();
  }
  int64_t output_bytes = 0;
  for (const ValueId output : node.outputs) {
    const std::optional<std::vector<int64_t>> shape = Constant(graph.value(output).shape);
    const int64_t bytes = shape ? CheckedBytes(graph.value(output).type, *shape) : -1;
    if (bytes < 0 || __builtin_add_overflow(output_bytes, bytes, &output_bytes)) return false;
  }
  if (input_bytes > context.max_folded_bytes || output_bytes > context.max_folded_bytes)
    return false;
  return output_bytes <= kSmallBytes || output_bytes <= 2 * input_bytes;
}

absl::StatusOr<Tensor> Evaluated(const Graph& graph, ValueId value) {
  const std::optional<ValueId> source = ViewSource(graph, value);
  if (!source) {
    return EvaluateConstants(graph, {Group::Kind::kKernel, {graph.value(value).producer}, {value}});
  }
  const Tensor& constant = *graph.value(*source).constant;
  const Tensor dense = constant.is_dense() ? constant : constant.Clone();
  // The view shares the constant's memory; a tensor without an owner is as long-lived as the
  // graph's other constants.
  return Tensor::View(dense.data(), dense.dtype(), *Constant(graph.value(value).shape), {},
                      dense.owner());
}

}  // namespace

absl::StatusOr<bool> FoldConstants(Graph& graph, const PassContext& context) {
  bool changed = false;
  const size_t count = graph.nodes().size();
  for (size_t i = 0; i < count; ++i) {
    const Node node = graph.nodes()[i];  // a copy: constants are added below
    if (!Foldable(graph, node, context)) continue;
    std::vector<Tensor> results;
    for (const ValueId output : node.outputs) {
      absl::StatusOr<Tensor> result = Evaluated(graph, output);
      if (!result.ok()) break;  // left to run time, which reports what is wrong
      results.push_back(*std::move(result));
    }
    if (results.size() != node.outputs.size()) continue;
    for (size_t k = 0; k < results.size(); ++k) {
      graph.ReplaceUses(node.outputs[k], graph.AddConstant("", std::move(results[k])));
    }
    changed = true;
  }
  if (changed) graph.RemoveDead();
  return changed;
}

}  // namespace kiln
