// SPDX-License-Identifier: Apache-2.0
// What holds for every record that says its form in ONNX: adding a record adds these tests for it.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/export.h"
#include "graph/onnx/import.h"
#include "graph/onnx/onnx.pb.h"
#include "graph/onnx/wire.h"
#include "graph/op.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"
#include "tests/ops/one_call.h"

namespace kiln {
namespace {

bool HasForm(const OpDef& op) { return op.onnx[0].op != nullptr; }

// A call that has every attribute, so that none is lost unnoticed: those that are absent get a
// value that is not their default, where the operator takes it.
absl::StatusOr<Graph> FullCall(const OpDef& op, DType type) {
  KILN_ASSIGN_OR_RETURN(Graph graph, OneCall(op, type));
  for (const AttrSpec& spec : op.attrs) {
    const Node node = graph.nodes()[0];
    if (HasAttr(node, spec.name)) continue;
    AttrValue value;
    if (spec.kind == AttrKind::kInt) {
      value = int64_t{spec.number == 0 ? 1 : 0};
    } else if (spec.kind == AttrKind::kFloat) {
      value = spec.number + 0.25;
    } else {
      continue;
    }
    GraphBuilder b("full");
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) {
      const Value& input = graph.value(id);
      inputs.push_back(input.constant ? b.Constant(*input.constant)
                                      : b.Input(input.name, input.type, input.shape));
    }
    Attrs attrs = node.attrs;
    attrs[spec.name] = value;
    const std::vector<ValueId> outputs = b.Ops(op.name, inputs, attrs);
    for (size_t k = 0; k < outputs.size(); ++k) b.Output(outputs[k], "y" + std::to_string(k));
    absl::StatusOr<Graph> fuller = std::move(b).Finish();
    if (fuller.ok()) graph = *std::move(fuller);
  }
  return graph;
}

// The nodes of the model that the graph is written as.
absl::StatusOr<std::vector<onnx::NodeProto>> Written(const std::string& bytes) {
  KILN_ASSIGN_OR_RETURN(const std::string skeleton, onnx::Skeleton(bytes, onnx::Root::kModel));
  onnx::ModelProto model;
  KILN_RETURN_IF_ERROR(onnx::Parse(skeleton, model));
  return std::vector<onnx::NodeProto>(model.graph().node().begin(), model.graph().node().end());
}

class OnnxRecordTest : public testing::TestWithParam<const OpDef*> {};

// One node is written as one of the forms, or by a function of the exporter, and read as the same.
TEST_P(OnnxRecordTest, IsReadAsItWasWritten) {
  const OpDef& op = *GetParam();
  if (!HasForm(op)) GTEST_SKIP() << "has no form in ONNX";
  int tried = 0;
  for (const DType type : kTypes) {
    const absl::StatusOr<Graph> graph = FullCall(op, type);
    if (!graph.ok()) continue;
    const absl::StatusOr<std::string> bytes = ExportOnnx(*graph);
    if (absl::IsUnimplemented(bytes.status())) continue;  // a type that ONNX leaves out
    KILN_ASSERT_OK(bytes.status());
    KILN_ASSERT_OK_AND_ASSIGN(const auto written, Written(*bytes));
    const auto names = OnnxNames(op);
    const bool by_form = std::any_of(written.begin(), written.end(), [&](const auto& node) {
      return std::find(names.begin(), names.end(), node.op_type()) != names.end();
    });
    const bool widened = written.back().op_type() == "Cast" && op.name != absl::string_view("cast");
    if (!by_form || widened) continue;  // composed: export_test.cc compares what it computes
    ++tried;
    KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport again, ImportOnnxBytes(*bytes));
    const auto same = std::find_if(again.graph.nodes().begin(), again.graph.nodes().end(),
                                   [&](const Node& node) { return node.op == &op; });
    ASSERT_NE(same, again.graph.nodes().end()) << Print(again.graph);
    const Node& node = graph->nodes()[0];
    for (const AttrSpec& spec : op.attrs) {
      if (spec.kind == AttrKind::kInt) {
        EXPECT_EQ(IntAttr(*same, spec.name), IntAttr(node, spec.name)) << spec.name;
      } else if (spec.kind == AttrKind::kFloat) {
        EXPECT_EQ(FloatAttr(*same, spec.name), FloatAttr(node, spec.name)) << spec.name;
      } else if (spec.kind == AttrKind::kString) {
        EXPECT_EQ(StringAttr(*same, spec.name), StringAttr(node, spec.name)) << spec.name;
      }
    }
    ASSERT_EQ(same->outputs.size(), node.outputs.size());
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const Value &got = again.graph.value(same->outputs[k]), &want = graph->value(node.outputs[k]);
      EXPECT_EQ(got.type, want.type);
      EXPECT_EQ(got.shape.size(), want.shape.size());
      if (Constant(want.shape)) {
        EXPECT_EQ(ToString(got.shape), ToString(want.shape));
      }
    }
  }
  if (op.onnx[0].since <= 20) {
    EXPECT_GT(tried, 0);
  }
}

// Each form is read: by the row that the record makes, or by a converter that goes before it.
TEST_P(OnnxRecordTest, EveryNameHasARow) {
  for (const absl::string_view name : OnnxNames(*GetParam()))
    EXPECT_NE(onnx::FindConverter(name, onnx::kNewestOpset), nullptr) << name;
}

INSTANTIATE_TEST_SUITE_P(All, OnnxRecordTest, testing::ValuesIn(AllOps().begin(), AllOps().end()),
                         [](const testing::TestParamInfo<const OpDef*>& info) {
                           return std::string(info.param->name);
                         });

// A row that stands twice, in a table of converters or because two records have one form, would
// hide one of the two.
TEST(OnnxRows, StandOnce) {
  std::set<std::pair<std::string, int>> seen;
  for (const onnx::Converter& row : onnx::AllConverters())
    EXPECT_TRUE(seen.emplace(row.op, row.since).second) << row.op << " " << row.since;
}

TEST(OnnxRows, ARowOfAFamilyGoesBeforeThatOfARecord) {
  EXPECT_EQ(onnx::FindConverter("Relu", 6)->convert, onnx::AsRecord);
  EXPECT_EQ(onnx::FindConverter("Add", 7)->convert, onnx::AsRecord);
  EXPECT_NE(onnx::FindConverter("Add", 6)->convert, onnx::AsRecord);
  EXPECT_NE(onnx::FindConverter("Max", 13)->convert, onnx::AsRecord);
  EXPECT_EQ(onnx::FindConverter("Acosh", 8), nullptr);
}

}  // namespace
}  // namespace kiln
