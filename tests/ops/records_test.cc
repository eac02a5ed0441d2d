// SPDX-License-Identifier: Apache-2.0
// What holds for every record, whatever it means: adding a record adds these tests for it.
#include <cmath>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"
#include "tests/ops/one_call.h"

namespace kiln {
namespace {

Tensor Random(DType type, const Shape& shape, const TestRange& range, std::mt19937& random) {
  Tensor tensor = Tensor::Allocate(type, *Constant(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double value = std::uniform_real_distribution<double>(range.lo, range.hi)(random);
    if (IsFloat(type)) {
      WriteFloat(tensor, i, value);
    } else {
      WriteInt(tensor, i, static_cast<int64_t>(value));
    }
  }
  return tensor;
}

class RecordTest : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }

  absl::StatusOr<Graph> OneCall(DType type) { return kiln::OneCall(op(), type); }

  std::vector<Tensor> Inputs(const Graph& g, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Tensor> inputs;
    for (const ValueId id : g.inputs())
      inputs.push_back(Random(g.value(id).type, g.value(id).shape, op().test, random));
    return inputs;
  }
};

TEST_P(RecordTest, SaysWhatItIs) {
  EXPECT_GT(std::string(op().doc).size(), 1u);
  EXPECT_STRNE(op().witness, "");
  EXPECT_NE(op().infer, nullptr);
  EXPECT_LE(op().test.lo, op().test.hi);
  EXPECT_EQ(FindOp(op().name), &op());
  std::set<std::string> names;
  for (const AttrSpec& spec : op().attrs) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_GT(std::string(spec.doc).size(), 1u) << spec.name;
    EXPECT_LT(spec.input, op().max_inputs < 0 ? 99 : op().max_inputs) << spec.name;
  }
}

TEST_P(RecordTest, HasTheBodyOfItsKind) {
  EXPECT_EQ(op().scalar != nullptr, op().kind == OpKind::kScalar);
  EXPECT_EQ(op().reduce != nullptr, op().kind == OpKind::kReduce);
  EXPECT_EQ(op().index != nullptr, op().kind == OpKind::kIndex);
  EXPECT_EQ(op().decompose != nullptr, op().kind == OpKind::kComposite);
  const bool host = op().kind == OpKind::kHost;
  const bool loops = op().kind == OpKind::kLibrary || op().kind == OpKind::kScatter;
  EXPECT_EQ(op().reference != nullptr, loops || (host && !op().dynamic));
  EXPECT_TRUE(op().evaluate == nullptr || (host && op().dynamic));
}

TEST_P(RecordTest, TakesSomeType) {
  if (!HasPlainCall(op())) GTEST_SKIP() << "tests/compiler/control_test.cc has calls of it";
  int taken = 0;
  for (const DType type : kTypes) taken += OneCall(type).ok() ? 1 : 0;
  EXPECT_GT(taken, 0) << OneCall(DType::kF32).status();
}

// Bodies are well typed, for every type that the rule lets through.
// An input that coordinates are loaded from is one of indices, and no other input is.
TEST_P(RecordTest, InputsOfIndicesAreThoseThatCoordinatesComeFrom) {
  if (op().kind != OpKind::kIndex) return;
  for (const DType type : kTypes) {
    const absl::StatusOr<Graph> g = OneCall(type);
    if (!g.ok()) continue;
    const absl::StatusOr<IndexMap> map = op().index(*g, g->nodes()[0], 0);
    if (!map.ok()) continue;
    std::set<int> loaded, said;
    for (const IndexPiece& piece : map->pieces)
      for (const IndexAxis& axis : piece.axes)
        if (axis.load_input >= 0) loaded.insert(axis.load_input);
    const InputRange& range = op().index_inputs;
    const int last =
        range.last < 0 ? static_cast<int>(g->nodes()[0].inputs.size()) - 1 : range.last;
    for (int k = range.first; range.first >= 0 && k <= last; ++k) said.insert(k);
    EXPECT_EQ(loaded, said) << Name(type);
  }
}

TEST_P(RecordTest, BodyIsTyped) {
  if (op().kind != OpKind::kScalar) return;
  for (const DType type : kTypes) {
    const absl::StatusOr<Graph> g = OneCall(type);
    if (!g.ok()) continue;
    const ScalarExpr body = ScalarBodyOf(*g, g->nodes()[0]);
    ASSERT_FALSE(body.empty());
    EXPECT_EQ(body.type(), ComputeType(g->value(g->nodes()[0].outputs[0]).type)) << Name(type);
    for (const ExprNode& node : body.nodes()) {
      EXPECT_TRUE(node.type != DType::kF16 && node.type != DType::kBF16);
      const bool mixed = node.op == ScalarOp::kCast || node.op == ScalarOp::kBitcast;
      const bool choice = node.op == ScalarOp::kSelect || node.op == ScalarOp::kGuard;
      const bool compare = node.op >= ScalarOp::kEq && node.op <= ScalarOp::kIsNan;
      for (int k = 0; k < Info(node.op).arity && !mixed; ++k) {
        const DType arg = body.node(node.args[k]).type;
        const DType want = choice && k == 0 ? DType::kBool
                           : compare        ? body.node(node.args[0]).type
                                            : node.type;
        EXPECT_EQ(arg, want) << Name(type) << ": operand " << k << " of " << Info(node.op).name;
      }
    }
  }
}

TEST_P(RecordTest, TextRoundTrip) {
  for (const DType type : kTypes) {
    const absl::StatusOr<Graph> g = OneCall(type);
    if (!g.ok()) continue;
    KILN_ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(Print(*g)));
    EXPECT_EQ(Print(again), Print(*g));
  }
}

TEST_P(RecordTest, InterpreterRunsItForEveryType) {
  for (const DType type : kTypes) {
    const absl::StatusOr<Graph> g = OneCall(type);
    if (!g.ok()) continue;
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out, Interpret(*g, Inputs(*g, 1)));
    for (size_t k = 0; k < out.size(); ++k) {
      const auto shape = Constant(g->value(g->outputs()[k].value).shape);
      EXPECT_EQ(out[k].shape(), shape.value_or(out[k].shape()));
      EXPECT_EQ(out[k].dtype(), g->value(g->outputs()[k].value).type);
    }
  }
}

// The decomposition has the type and shape that the rule says, is a good graph, and means the same.
TEST_P(RecordTest, DecompositionFollowsTheRule) {
  if (op().kind != OpKind::kComposite) return;
  for (const DType type : kTypes) {
    absl::StatusOr<Graph> g = OneCall(type);
    if (!g.ok()) continue;
    const std::vector<Tensor> inputs = Inputs(*g, 2);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(*g, inputs));
    GraphBuilder b(&*g);
    const Node node = g->nodes()[0];
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<ValueId> parts, node.op->decompose(b, node));
    ASSERT_EQ(parts.size(), node.outputs.size());
    for (size_t k = 0; k < parts.size(); ++k) {
      EXPECT_EQ(g->value(parts[k]).type, g->value(node.outputs[k]).type);
      EXPECT_EQ(g->value(parts[k]).shape, g->value(node.outputs[k]).shape);
      g->ReplaceUses(node.outputs[k], parts[k]);
    }
    EXPECT_TRUE(g->RemoveDead());
    KILN_ASSERT_OK(Verify(*g));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Interpret(*g, inputs));
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_EQ(Values(got[k]), Values(want[k])) << Name(type);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecordTest, testing::ValuesIn(AllOps().begin(), AllOps().end()),
                         [](const testing::TestParamInfo<const OpDef*>& info) {
                           return std::string(info.param->name);
                         });

TEST(RegistryTest, IsSortedByName) {
  const std::span<const OpDef* const> all = AllOps();
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_LT(std::string(all[i - 1]->name), std::string(all[i]->name));
  EXPECT_EQ(FindOp("no_such_op"), nullptr);
  EXPECT_EQ(FindOp(""), nullptr);
}

}  // namespace
}  // namespace kiln
