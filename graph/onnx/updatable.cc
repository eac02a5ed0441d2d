// SPDX-License-Identifier: Apache-2.0
// Constants of a model that are imported as inputs, so that other values may take their place. What
// a converter needs to know of one is asked of the input: it becomes a value on which the structure
// depends.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/onnx/importer.h"
#include "graph/updatable.h"

namespace kiln::onnx {
namespace {

// What the node makes, if it is a Constant with a tensor.
const TensorProto* ConstantOf(const NodeProto& node) {
  if (node.op_type() != "Constant" || !DomainOf(node.domain()).empty() || node.output_size() != 1)
    return nullptr;
  const AttributeProto* const value = FindAttribute(node, "value");
  return value != nullptr && value->has_t() ? &value->t() : nullptr;
}

}  // namespace

absl::StatusOr<const TensorProto*> FindUpdatable(const ModelProto& model, const std::string& name) {
  std::vector<std::string> names;
  for (const TensorProto& tensor : model.graph().initializer()) {
    if (tensor.name() == name) return &tensor;
    names.push_back(tensor.name());
  }
  for (const NodeProto& node : model.graph().node()) {
    const TensorProto* const tensor = ConstantOf(node);
    if (tensor == nullptr) continue;
    if (node.output(0) == name) return tensor;
    names.push_back(node.output(0));
  }
  return NoSuchConstant(name, names);
}

absl::StatusOr<Tensor> UpdatableTensor(const ModelProto& model, const std::string& name,
                                       TensorSource& source) {
  KILN_ASSIGN_OR_RETURN(const TensorProto* const proto, FindUpdatable(model, name));
  absl::StatusOr<Tensor> tensor = ToTensor(*proto, source);
  if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("constant ", Quoted(name)));
  return tensor;
}

bool Importer::IsUpdatable(const Scope& scope, const std::string& name) const {
  return &scope == &main_ && std::find(options_.updatable.begin(), options_.updatable.end(),
                                       name) != options_.updatable.end();
}

absl::Status Importer::AddUpdatable() {
  for (const std::string& name : options_.updatable) {
    KILN_ASSIGN_OR_RETURN(Tensor tensor, UpdatableTensor(model_, name, source_));
    const ValueId id = out_.graph.AddInput(name, tensor.dtype(), ToShape(tensor.shape()));
    Slot& slot = main_.slots[name];
    if (slot.id.valid())
      return absl::InvalidArgumentError(absl::StrCat(
          "value ", Quoted(name), ": is defined twice; names must be unique in a graph"));
    slot.id = id;
    out_.updatable.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace kiln::onnx
