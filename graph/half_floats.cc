// SPDX-License-Identifier: Apache-2.0
#include "graph/half_floats.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln {
namespace {

constexpr DType kWide = DType::kF32, kNarrow = DType::kF16;

Tensor Narrow(const Tensor& tensor) {
  const Tensor wide = Dense(tensor);
  Tensor narrow = Tensor::Allocate(kNarrow, wide.shape());
  for (int64_t i = 0; i < wide.num_elements(); ++i) WriteFloat(narrow, i, ReadFloat(wide, i));
  return narrow;
}

class Converter {
 public:
  explicit Converter(const Graph& graph) : from_(graph), ids_(graph.values().size()) {
    to_.name = graph.name;
  }

  absl::StatusOr<Graph> Convert() {
    for (const ValueId id : from_.inputs()) {
      const Value& value = from_.value(id);
      const ValueId input = to_.AddInput(value.name, value.type, value.shape);
      KILN_ASSIGN_OR_RETURN(At(id), value.type == kWide ? Cast(input, kNarrow) : input);
    }
    for (size_t v = 0; v < from_.values().size(); ++v) {
      const Value& value = from_.values()[v];
      if (!value.constant || value.producer.v >= 0) continue;
      ids_[v] = to_.AddConstant(value.name,
                                value.type == kWide ? Narrow(*value.constant) : *value.constant);
    }
    for (const Node& node : from_.nodes()) KILN_RETURN_IF_ERROR(Add(node));
    for (const Graph::Output& output : from_.outputs())
      to_.AddOutput(At(output.value), output.name);
    to_.RemoveDead();
    return std::move(to_);
  }

 private:
  ValueId& At(ValueId id) { return ids_[static_cast<size_t>(id.v)]; }

  absl::StatusOr<ValueId> Cast(ValueId id, DType type) {
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                          to_.AddNode(*FindOp("cast"), {id}, {{"to", type}}, "", {""}));
    return made[0];
  }

  // What the node takes where it takes no f16.
  absl::StatusOr<ValueId> Wide(ValueId id) {
    const Value& value = from_.value(id);
    if (value.type != kWide) return At(id);
    if (value.constant && value.producer.v < 0) return to_.AddConstant("", *value.constant);
    return Cast(At(id), kWide);
  }

  absl::Status Add(const Node& node) {
    Attrs attrs = node.attrs;
    for (auto& [name, attr] : attrs) {
      if (std::holds_alternative<Body>(attr)) {
        return absl::UnimplementedError(absl::StrCat("node \"", node.name, "\" (", node.op->name,
                                                     "): it has a body, which stays f32"));
      }
      DType* const type = std::get_if<DType>(&attr);
      if (type != nullptr && *type == kWide && absl::string_view(node.op->name) == "cast")
        *type = kNarrow;
    }
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (const ValueId id : node.inputs) inputs.push_back(id.valid() ? At(id) : id);
    for (const ValueId id : node.outputs) names.push_back(from_.value(id).name);
    const std::string name = node.name == names[0] ? "" : node.name;
    absl::StatusOr<std::vector<ValueId>> made = to_.AddNode(*node.op, inputs, attrs, name, names);
    if (!made.ok()) {
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (!inputs[k].valid()) continue;
        KILN_ASSIGN_OR_RETURN(inputs[k], Wide(node.inputs[k]));
      }
      KILN_ASSIGN_OR_RETURN(made, to_.AddNode(*node.op, inputs, node.attrs, name, names));
    }
    for (size_t k = 0; k < made->size(); ++k) {
      const ValueId id = (*made)[k];
      KILN_ASSIGN_OR_RETURN(At(node.outputs[k]),
                            to_.value(id).type == kWide ? Cast(id, kNarrow) : id);
    }
    return absl::OkStatus();
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> ids_;
};

}  // namespace

absl::StatusOr<Graph> WithHalfFloats(const Graph& graph) { return Converter(graph).Convert(); }

}  // namespace kiln
