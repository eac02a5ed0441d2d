// SPDX-License-Identifier: Apache-2.0
// Every record has a gradient, which differences confirm, or a reason why it has none. Adding a
// record adds these tests for it.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
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
};
class GradientCallsTest : public GradientRecordTest {};
class GradientOfFunctionTest : public GradientRecordTest {};

TEST_P(GradientRecordTest, HasOneOrSaysWhyNot) {
  if (op().gradient.none != nullptr) {
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

TEST_P(GradientOfFunctionTest, AgreesWithDifferences) {
  const std::vector<std::string> calls = CallsOf(op());
  EXPECT_GE(calls.size(), 5U);
  for (const std::string& text : calls) {
    KILN_ASSERT_OK_AND_ASSIGN(const GradientCall call, MakeCall(text, DType::kF64, 1));
    KILN_EXPECT_OK(CheckGradients(call.graph, call.inputs)) << text;
  }
}

// Types differ by their rounding alone.
TEST_P(GradientCallsTest, OtherTypesAreTheSameButRounded) {
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

std::string NameOf(const testing::TestParamInfo<const OpDef*>& info) { return info.param->name; }

// Those with a gradient that have calls, or have none.
std::vector<const OpDef*> OpsByCalls(bool have) {
  std::vector<const OpDef*> ops;
  for (const OpDef* const op : AllOps())
    if (op->gradient.none == nullptr && CallsOf(*op).empty() != have) ops.push_back(op);
  return ops;
}

// Of those, the ones whose gradient is the function's: to stop it is to differ from it.
std::vector<const OpDef*> OpsOfFunctions() {
  std::vector<const OpDef*> ops = OpsByCalls(true);
  std::erase_if(ops, [](const OpDef* op) { return op->gradient.rule == gradient::Nothing; });
  return ops;
}

TEST(GradientRecords, HaveCalls) {
  std::vector<std::string> without;
  for (const OpDef* const op : OpsByCalls(false)) without.push_back(op->name);
  EXPECT_THAT(without,
              testing::UnorderedElementsAre(
                  // What is called in their graphs is; control_test.cc, and custom operators' own.
                  "if", "loop", "custom", "composed",
                  // These take no floats that may be anything else than constants.
                  "bernoulli", "constant_of_shape", "multinomial", "random_normal",
                  "random_uniform", "range"));
}

INSTANTIATE_TEST_SUITE_P(All, GradientRecordTest,
                         testing::ValuesIn(AllOps().begin(), AllOps().end()), NameOf);
INSTANTIATE_TEST_SUITE_P(All, GradientCallsTest, testing::ValuesIn(OpsByCalls(true)), NameOf);
INSTANTIATE_TEST_SUITE_P(All, GradientOfFunctionTest, testing::ValuesIn(OpsOfFunctions()), NameOf);

}  // namespace
}  // namespace kiln
