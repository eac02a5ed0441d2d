// SPDX-License-Identifier: Apache-2.0
// What holds for every record, whatever it means: adding a record adds these tests for it.
#include <cmath>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/op.h"
#include "kiln/graph/reference/interpreter.h"
#include "kiln/graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                            DType::kI16, DType::kI32, DType::kI64, DType::kU8,   DType::kU16,
                            DType::kU32, DType::kU64, DType::kBool};

// Inputs and attributes for a small call; only ops that do not take plain equal shapes are named.
struct Call {
  std::vector<Shape> shapes;
  Attrs attrs;
  std::vector<DType> types = {};  // of inputs that have a type of their own
};

using L = std::vector<int64_t>;

Call CallOf(const std::string& op, const OpDef& def) {
  const Shape image = {2, 4, 5, 6};
  if (op == "cast") return {{{2, 3}}, {{"to", DType::kF16}}};
  if (op == "where") return {{{2, 3}, {2, 3}, {3}}, {}, {DType::kBool}};
  if (op == "reshape") return {{{2, 6}}, {{"shape", L{3, -1}}}};
  if (op == "squeeze") return {{{2, 1, 3}}, {{"axes", L{1}}}};
  if (op == "unsqueeze") return {{{2, 3}}, {{"axes", L{0, 2}}}};
  if (op == "expand") return {{{2, 1}}, {{"shape", L{4, 1, 3}}}};
  if (op == "slice")
    return {{{5, 6}}, {{"starts", L{1, -1}}, {"ends", L{4, 0}}, {"steps", L{2, -2}}}};
  if (op == "concat") return {{{2, 3}, {2, 1}}, {{"axis", int64_t{1}}}};
  if (op == "split") return {{{2, 4}}, {{"axis", int64_t{1}}, {"split", L{1, 3}}}};
  if (op == "gather") return {{{4, 3}, {2, 2}}, {{"axis", int64_t{0}}}, {DType::kF32, DType::kI64}};
  const std::vector<DType> indexed = {DType::kF32, DType::kI64};
  if (op == "iota") return {{}, {{"shape", L{2, 3}}, {"axis", int64_t{1}}}};
  if (op == "gather_elements") return {{{4, 3}, {2, 3}}, {{"axis", int64_t{0}}}, indexed};
  if (op == "take") return {{{4, 3, 2}, {5}, {5}}, {}, {DType::kF32, DType::kI64, DType::kI64}};
  if (op == "top_k") return {{{3, 4}}, {{"k", int64_t{2}}}};
  if (op == "cumulative") return {{{3, 4}}, {{"axis", int64_t{1}}}};
  if (op == "scatter_elements")
    return {{{4, 3}, {2, 3}, {2, 3}}, {{"axis", int64_t{0}}, {"reduction", int64_t{1}}}, indexed};
  if (op == "scatter_nd") return {{{4, 3}, {2, 1}, {2, 3}}, {{"reduction", int64_t{1}}}, indexed};
  if (op == "pad") return {{{2, 3}}, {{"pads", L{1, 0, 0, 2}}, {"value", 1.5}}};
  if (op == "upsample") return {{{2, 3}}, {{"scales", L{1, 2}}}};
  if (op == "elements") return {{{2}}, {{"symbols", std::string("[a, b]")}}, {DType::kI64}};
  if (op == "nonzero") return {{{2, 3}}, {{"extents", std::string("[2, k]")}}};
  if (op == "compress")
    return {{{2, 3}, {3}},
            {{"axis", int64_t{1}}, {"extents", std::string("[2, k]")}},
            {DType::kF32, DType::kBool}};
  if (op == "unique") return {{{4}}, {{"extents", std::string("[k, k, 4, k]")}}};
  if (op == "non_max_suppression")
    return {{{1, 4, 4}, {1, 2, 4}}, {{"extents", std::string("[k, 3]")}}};
  if (op == "constant_of_shape") return {{}, {{"shape", L{2, 3}}}};
  if (op == "layer_norm") return {{{2, 3, 4}, {4}, {4}}, {}};
  if (op == "batch_norm") return {{image, {4}, {4}, {4}, {4}}, {}};
  if (op == "instance_norm") return {{image, {4}, {4}}, {}};
  if (op.rfind("global_", 0) == 0) return {{image}, {}};
  if (op == "matmul") return {{{2, 3, 4}, {4, 5}}, {}};
  if (op == "gemm")
    return {{{3, 4}, {5, 4}, {5}}, {{"trans_b", int64_t{1}}, {"alpha", 0.5}, {"beta", 2.0}}};
  if (op == "conv")
    return {{image, {6, 2, 3, 3}, {6}},
            {{"group", int64_t{2}}, {"pads", L{1, 1, 0, 1}}, {"strides", L{2, 1}}}};
  if (op == "conv_transpose")
    return {{image, {4, 3, 3, 3}, {3}}, {{"strides", L{2, 2}}, {"output_padding", L{1, 0}}}};
  if (op == "max_pool" || op == "average_pool")
    return {{image}, {{"kernel", L{3, 2}}, {"pads", L{1, 0, 1, 1}}}};
  const int count = def.max_inputs < 0 ? 3 : def.max_inputs;
  return {std::vector<Shape>(static_cast<size_t>(count), Shape{2, 3}), {}};
}

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

  // A graph of one call with all inputs of `type`, where the call has no type of its own; kept even
  // if the type is refused.
  absl::StatusOr<Graph> OneCall(DType type) {
    const Call call = CallOf(op().name, op());
    GraphBuilder b("one");
    std::vector<ValueId> inputs;
    for (size_t k = 0; k < call.shapes.size(); ++k) {
      const DType own =
          k < call.types.size() && call.types[k] != DType::kF32 ? call.types[k] : type;
      inputs.push_back(b.Input(absl::StrCat("x", k), own, call.shapes[k]));
    }
    if (std::string(op().name) == "range") {
      inputs = {b.Scalar(type, 0), b.Scalar(type, 5), b.Scalar(type, 2)};
    }
    const std::vector<ValueId> outputs = b.Ops(op().name, inputs, call.attrs);
    for (size_t k = 0; k < outputs.size(); ++k) b.Output(outputs[k], absl::StrCat("y", k));
    return std::move(b).Finish();
  }

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
  EXPECT_EQ(op().reference != nullptr, op().kind == OpKind::kLibrary || (host && !op().dynamic));
  EXPECT_TRUE(op().evaluate == nullptr || (host && op().dynamic));
}

TEST_P(RecordTest, TakesSomeType) {
  if (op().kind == OpKind::kControl || std::string(op().name) == "custom")
    GTEST_SKIP() << "tests/compiler/control_test.cc has calls of it";
  int taken = 0;
  for (const DType type : kTypes) taken += OneCall(type).ok() ? 1 : 0;
  EXPECT_GT(taken, 0) << OneCall(DType::kF32).status();
}

// Bodies are well typed, for every type that the rule lets through.
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
