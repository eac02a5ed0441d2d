// SPDX-License-Identifier: Apache-2.0
// Library operators written as kernels: random calls give what the records' reference loops give.
// KILN_LIBRARY_CALLS of each kind.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/compare.h"
#include "fusion/pipeline.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/fusion/random_library_call.h"

namespace kiln {
namespace {

void ExpectSame(RandomCall call) {
  KILN_ASSERT_OK_AND_ASSIGN(Graph graph, std::move(call.b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(graph, call.inputs));
  KILN_ASSERT_OK_AND_ASSIGN(const bool changed, RunPass(*FindPass("expand_library"), graph, {}));
  ASSERT_TRUE(changed);
  for (const Node& node : graph.nodes()) ASSERT_NE(node.op->kind, OpKind::kLibrary);
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Interpret(graph, call.inputs));
  ASSERT_EQ(got[0].shape(), want[0].shape());
  const Comparison comparison = Compare(got[0], want[0], 1e-6, 1e-6);
  EXPECT_TRUE(comparison.ok) << comparison.what;
}

class ExpandLibrary : public testing::TestWithParam<const char*> {};

TEST_P(ExpandLibrary, MeansTheSame) {
  const std::string op = GetParam();
  const uint64_t calls = FromEnvironment("KILN_LIBRARY_CALLS", 120);
  for (uint64_t seed = 0; seed < calls; ++seed) {
    RandomCall call(seed);
    MakeRandomCall(op, call);
    if (absl::IsInvalidArgument(call.b.status())) continue;  // no output is left
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ExpectSame(std::move(call));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ExpandLibrary,
                         testing::Values("matmul", "matmul_integer", "conv", "conv_integer",
                                         "conv_transpose", "conv_backward_weights", "max_pool",
                                         "average_pool", "max_pool_backward",
                                         "average_pool_backward"),
                         [](const auto& info) { return std::string(info.param); });

// What would not become one kernel stays a library call, as does what has unknown places.
TEST(ExpandLibrary, LeavesWhatWouldGoThroughMemory) {
  for (const bool symbolic : {false, true}) {
    GraphBuilder b("call");
    const Dim width = symbolic ? Dim::Symbol("w") : Dim(8);
    const ValueId x = b.Input("x", DType::kF32, {1, 2, width});
    b.Output(b.Op("max_pool", {x}, {{"kernel", std::vector<int64_t>{2}}}), "y");
    KILN_ASSERT_OK_AND_ASSIGN(Graph graph, std::move(b).Finish());
    KILN_ASSERT_OK_AND_ASSIGN(const bool changed, RunPass(*FindPass("expand_library"), graph,
                                                          {.fuses_reductions = symbolic}));
    EXPECT_FALSE(changed);
    EXPECT_EQ(graph.nodes().size(), 1u);
  }
}

}  // namespace
}  // namespace kiln
