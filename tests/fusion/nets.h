// SPDX-License-Identifier: Apache-2.0
// Small graphs that the fusion tests share.
#ifndef KILN_TESTS_FUSION_NETS_H_
#define KILN_TESTS_FUSION_NETS_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fusion/form_groups.h"
#include "fusion/lower.h"
#include "fusion/pipeline.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kernel/text.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"

namespace kiln {

inline Dim Sym(const char* name) { return Dim::Symbol(name); }

inline ValueId ReduceOver(GraphBuilder& b, const char* op, ValueId x, std::vector<int64_t> axes,
                          int64_t keepdims = 1) {
  return b.Op(op, {x}, {{"axes", std::move(axes)}, {"keepdims", keepdims}});
}

// softmax over the last axis, as exporters write it in pieces.
inline ValueId SoftmaxParts(GraphBuilder& b, ValueId x) {
  const ValueId e = b.Op("exp", {b.Op("sub", {x, ReduceOver(b, "reduce_max", x, {-1})})});
  return b.Op("div", {e, ReduceOver(b, "reduce_sum", e, {-1})});
}

// Layer norm over the last axis, as make_models.py --decomposed writes it.
inline ValueId LayerNormParts(GraphBuilder& b, ValueId x, ValueId scale, ValueId bias,
                              double epsilon = 1e-5) {
  const ValueId d = b.Op("sub", {x, ReduceOver(b, "reduce_mean", x, {-1})});
  const ValueId square = b.Op("pow", {d, b.Scalar(DType::kF32, 2)});
  const ValueId variance = ReduceOver(b, "reduce_mean", square, {-1});
  const ValueId deviation = b.Op("sqrt", {b.Op("add", {variance, b.Scalar(DType::kF32, epsilon)})});
  const ValueId y = b.Op("div", {d, deviation});
  return b.Op("add", {b.Op("mul", {y, scale}), bias});
}

inline ValueId Weights(GraphBuilder& b, std::vector<int64_t> shape, double value = 0.5) {
  return b.Constant(FilledTensor(DType::kF32, std::move(shape), value));
}

inline Graph FinishOrDie(GraphBuilder& b) {
  absl::StatusOr<Graph> graph = std::move(b).Finish();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

inline Graph Parsed(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

// The graph after all passes.
inline Graph Optimised(GraphBuilder& b, int level = 3) {
  Graph graph = FinishOrDie(b);
  const absl::Status status = RunPasses(graph, {.level = level});
  EXPECT_TRUE(status.ok()) << status;
  return graph;
}

inline Grouping Grouped(const Graph& graph, GroupOptions options = {}) {
  absl::StatusOr<Grouping> grouping = FormGroups(graph, options);
  EXPECT_TRUE(grouping.ok()) << grouping.status();
  return grouping.ok() ? *std::move(grouping) : Grouping();
}

inline std::vector<Group> KernelGroups(const Grouping& grouping) {
  std::vector<Group> kernels;
  for (const Group& group : grouping.groups) {
    if (group.kind == Group::Kind::kKernel) kernels.push_back(group);
  }
  return kernels;
}

inline std::vector<std::string> KindsInOrder(const Grouping& grouping) {
  std::vector<std::string> kinds;
  for (const Group& group : grouping.groups) kinds.push_back(Name(group.kind));
  return kinds;
}

// The texts of all kernels of the graph, in order.
inline std::vector<std::string> KernelTexts(const Graph& graph, GroupOptions options = {}) {
  std::vector<std::string> texts;
  for (const Group& group : KernelGroups(Grouped(graph, options))) {
    const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, group);
    EXPECT_TRUE(lowered.ok()) << lowered.status();
    texts.push_back(lowered.ok() ? Print(lowered->canonical.kernel) : "");
  }
  return texts;
}

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_NETS_H_
