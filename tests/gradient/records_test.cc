// SPDX-License-Identifier: Apache-2.0
// Every record has a gradient, which differences confirm, or a reason why it has none. Adding a
// record adds these tests for it.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/gradient/gradients.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"
#include "graph/reference/gradient_check.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/gradient/gradient_calls.h"
#include "tests/ops/one_call.h"

namespace kiln {
namespace {

bool HasFloatOutput(const Graph& graph) {
  for (const Graph::Output& output : graph.outputs()) {
    if (IsFloat(graph.value(output.value).type)) return true;
  }
  return false;
}

class GradientRecordTest : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }
  bool none() const { return op().gradient.none != nullptr; }
  // if, loop and custom have calls in control_test.cc; range and the like take no floats that may
  // be anything else than constants.
  bool HasCalls() const { return !CallsOf(op()).empty(); }
};

TEST_P(GradientRecordTest, HasOneOrSaysWhyNot) {
  if (none()) {
    EXPECT_GT(std::string(op().gradient.none).size(), 5U);
    EXPECT_EQ(op().gradient.rule, nullptr);
    for (const DType type : kTypes) {
      const absl::StatusOr<Graph> graph = OneCall(op(), type);
      if (!graph.ok()) continue;
      EXPECT_FALSE(HasFloatOutput(*graph)) << "of " << Name(type);
    }
    return;
  }
  EXPECT_STRNE(gradient::SourceOf(op()), "none");
}

TEST_P(GradientRecordTest, AgreesWithDifferences) {
  if (none() || !HasCalls()) GTEST_SKIP();
  if (op().gradient.rule == gradient::Nothing) GTEST_SKIP() << "it is not the function's";
  const std::vector<std::string> calls = CallsOf(op());
  EXPECT_GE(calls.size(), 5U);
  for (const std::string& text : calls) {
    KILN_ASSERT_OK_AND_ASSIGN(const GradientCall call, MakeCall(text, DType::kF64, 1));
    KILN_EXPECT_OK(CheckGradients(call.graph, call.inputs)) << text;
  }
}

// Types differ by their rounding alone.
TEST_P(GradientRecordTest, OtherTypesAreTheSameButRounded) {
  if (none() || !HasCalls()) GTEST_SKIP();
  const std::string text = CallsOf(op())[0];
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (absl::StrContains(text, "f64}")) continue;
    if (op().kind == OpKind::kScatter && SizeOf(type) < 4) continue;  // it takes none
    SCOPED_TRACE(absl::StrCat(text, " of ", Name(type)));
    KILN_ASSERT_OK_AND_ASSIGN(GradientCall call, MakeCall(text, type, 1));
    KILN_ASSERT_OK_AND_ASSIGN(GradientCall exact, MakeCall(text, DType::kF64, 1));
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      for (int64_t i = 0; i < call.inputs[k].num_elements(); ++i) {
        if (IsFloat(call.inputs[k].dtype()))
          WriteFloat(exact.inputs[k], i, ReadFloat(call.inputs[k], i));
      }
    }
    std::vector<std::vector<Tensor>> gradients;
    for (GradientCall* c : {&call, &exact}) {
      KILN_ASSERT_OK_AND_ASSIGN(const Graph loss, WithScalarLoss(c->graph, c->inputs, 1));
      std::vector<ValueId> wrt;
      for (const ValueId id : c->graph.inputs()) {
        if (IsFloat(c->graph.value(id).type)) wrt.push_back(id);
      }
      KILN_ASSERT_OK_AND_ASSIGN(const Graph g, Gradients(loss, loss.outputs()[0].value, wrt));
      KILN_ASSERT_OK_AND_ASSIGN(gradients.emplace_back(), Interpret(g, c->inputs));
    }
    const double bound = type == DType::kF32 ? 1e-5 : type == DType::kF16 ? 1e-2 : 6e-2;
    for (size_t k = 1; k < gradients[0].size(); ++k) {
      for (int64_t i = 0; i < gradients[0][k].num_elements(); ++i) {
        const double got = ReadFloat(gradients[0][k], i), want = ReadFloat(gradients[1][k], i);
        EXPECT_NEAR(got, want, bound * (1 + std::abs(want))) << "input " << k - 1 << ", " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GradientRecordTest,
                         testing::ValuesIn(AllOps().begin(), AllOps().end()),
                         [](const testing::TestParamInfo<const OpDef*>& info) {
                           return std::string(info.param->name);
                         });

}  // namespace
}  // namespace kiln
