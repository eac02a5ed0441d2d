// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/converter.h"

#include <algorithm>
#include <optional>

#include "base/status_macros.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

bool Before(const Converter& a, const Converter& b) {
  const int order = absl::string_view(a.op).compare(b.op);
  return order != 0 ? order < 0 : a.since < b.since;
}

// The rows that records make, but for those that a row of `own` goes before.
std::vector<Converter> OfRecords(const std::vector<Converter>& own) {
  std::vector<Converter> made;
  for (const OpDef* op : AllOps()) {
    for (const OnnxForm& form : op->onnx) {
      if (form.op == nullptr) continue;
      const bool other = std::any_of(own.begin(), own.end(), [&](const Converter& row) {
        return absl::string_view(row.op) == form.op && row.since >= form.since;
      });
      if (other) continue;
      made.push_back(
          {form.op, form.since, op->kind == OpKind::kReduce ? AsReduction : AsRecord, op->name});
    }
  }
  return made;
}

std::vector<Converter> Sorted() {
  static_assert(OnnxForm().since == kOldestOpset);
  std::vector<Converter> all;
  for (const auto rows :
       {ElementwiseConverters(), ReduceConverters(), ShapeConverters(), NeuralConverters(),
        SelectConverters(), SampleConverters(), TensorConverters(), AttentionConverters(),
        QuantizedConverters(), RandomConverters(), RecurrentConverters(), DynamicConverters(),
        SignalConverters(), TrainingConverters(), ContribConverters()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  const std::vector<Converter> made = OfRecords(all);
  all.insert(all.end(), made.begin(), made.end());
  std::sort(all.begin(), all.end(), Before);
  return all;
}

// The ONNX attribute that `spec` describes, which the node has; nothing where kinds have no
// counterpart.
std::optional<AttrValue> ReadAttr(NodeView& n, const AttrSpec& spec) {
  const char* const name = OnnxName(spec);
  switch (spec.kind) {
    case AttrKind::kInt:
      return n.Int(name, 0);
    case AttrKind::kFloat:
      return n.Float(name, 0);
    case AttrKind::kString:
      return n.Text(name, "");
    case AttrKind::kInts:
    case AttrKind::kDims:
      return n.Ints(name);
    case AttrKind::kFloats:
      return n.Floats(name);
    case AttrKind::kTensor:
      if (std::optional<Tensor> tensor = n.TensorAttr(name)) return *std::move(tensor);
      return std::nullopt;
    case AttrKind::kGraph:
    case AttrKind::kCustom:
    case AttrKind::kType:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

absl::Status AsRecord(NodeView& n) {
  const OpDef* def = FindOp(n.record());
  if (def == nullptr) return n.Emit(n.record(), n.inputs());
  KILN_RETURN_IF_ERROR(n.Need(def->min_inputs, def->max_inputs < 0
                                                   ? std::max(def->min_inputs, n.num_inputs())
                                                   : def->max_inputs));
  Attrs attrs;
  for (const AttrSpec& spec : def->attrs) {
    if (!n.HasAttr(OnnxName(spec))) continue;
    if (std::optional<AttrValue> value = ReadAttr(n, spec)) attrs[spec.name] = *std::move(value);
  }
  return n.Emit(n.record(), n.inputs(), std::move(attrs));
}

const std::vector<Converter>& AllConverters() {
  static const auto* const all = new std::vector<Converter>(Sorted());
  return *all;
}

const Converter* FindConverter(absl::string_view op, int64_t opset) {
  const auto& all = AllConverters();
  // The first row behind all rows of this operator that are not newer than `opset`.
  const auto behind = std::partition_point(all.begin(), all.end(), [&](const Converter& row) {
    const int order = absl::string_view(row.op).compare(op);
    return order != 0 ? order < 0 : row.since <= opset;
  });
  if (behind == all.begin()) return nullptr;
  const Converter& row = *(behind - 1);
  return row.op == op ? &row : nullptr;
}

}  // namespace kiln::onnx
