// SPDX-License-Identifier: Apache-2.0
#include "training/loss.h"

#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/printable.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "exec/checked_program.h"
#include "exec/provider.h"
#include "exec/symbols.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "graph/training/losses.h"

namespace kiln::training {
namespace {

// The axis of the classes in an output of this rank.
size_t ClassAxis(const CrossEntropyLoss& loss, size_t rank) {
  return loss.class_axis < 0 ? rank - 1 : 1;
}

// What goes into the node that made `x`, if that is of this operator; else `x`.
ValueId Before(const GraphBuilder& b, ValueId x, absl::string_view op, int64_t axis) {
  const Value& value = b.value(x);
  if (value.producer.v < 0) return x;
  const Node& node = b.graph().node(value.producer);
  if (op != node.op->name) return x;
  if (axis >= 0) {
    const auto rank = static_cast<int64_t>(value.shape.size());
    const int64_t own = IntAttr(node, "axis");
    if ((own < 0 ? own + rank : own) != axis) return x;
  }
  return node.inputs[0];
}

ValueId Reshaped(GraphBuilder& b, ValueId x, const Shape& shape) {
  return b.Op("reshape", {x}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
}

struct Adder {
  GraphBuilder& b;
  ValueId output, labels;

  ValueId operator()(const CrossEntropyLoss& loss) const {
    const size_t axis = ClassAxis(loss, b.shape(output).size());
    ValueId logits = Before(b, output, "softmax", static_cast<int64_t>(axis));
    ValueId targets = labels;
    if (axis != 1) {  // all places are samples
      const Shape shape = b.shape(logits), places(shape.begin(), shape.end() - 1);
      logits = Reshaped(b, logits, {Product(places), shape.back()});
      targets = Reshaped(b, targets, {Product(places)});
    }
    CrossEntropyOptions options;
    options.ignore_index = loss.ignore_index;
    options.label_smoothing = loss.label_smoothing;
    return CrossEntropy(b, logits, targets, options);
  }
  ValueId operator()(const MeanSquaredErrorLoss&) const {
    return MeanSquaredError(b, output, labels);
  }
  ValueId operator()(const BinaryCrossEntropyLoss&) const {
    return BinaryCrossEntropy(b, Before(b, output, "sigmoid", -1), labels);
  }
  ValueId operator()(const HuberLoss& loss) const { return Huber(b, output, labels, loss.delta); }
  ValueId operator()(const OutputLoss&) const { return Reshaped(b, output, {}); }
};

std::string Element(int64_t i, const Tensor& given) {
  return absl::StrCat("labels: element ", i, " of ", given.num_elements());
}

absl::StatusOr<Tensor> AsClasses(const CrossEntropyLoss& loss, std::optional<int64_t> classes,
                                 const Tensor& given) {
  if (!IsInt(given.dtype()))
    return Invalid("labels: they are ", Name(given.dtype()), ", expected numbers of classes; give ",
                   "integers");
  const Tensor dense = Dense(given);
  const bool same = dense.dtype() == DType::kI64;
  Tensor out = dense;
  if (!same) {
    KILN_ASSIGN_OR_RETURN(out, TryAllocate(DType::kI64, given.shape()));
  }
  for (int64_t i = 0; i < dense.num_elements(); ++i) {
    const int64_t label = ReadInt(dense, i);
    if (!same) WriteInt(out, i, label);
    if (loss.ignore_index && label == *loss.ignore_index) continue;
    if (label < 0 || (classes && label >= *classes))
      return Invalid(
          Element(i, dense), " is ", label, "; classes are numbered from 0",
          classes ? absl::StrCat(" to ", *classes - 1, ", the indices of axis ", loss.class_axis,
                                 " of the output (`axis` names another)")
                  : "",
          loss.ignore_index ? "" : ", and `ignore_index` may name one that does not count");
  }
  return out;
}

absl::StatusOr<Tensor> AsNumbers(const LossPort& port, const Tensor& given, bool unit) {
  if (!IsFloat(given.dtype()) && !IsInt(given.dtype()) && given.dtype() != DType::kBool)
    return Invalid("labels: they are ", Name(given.dtype()), "; give numbers");
  const Tensor dense = Dense(given);
  const bool same = dense.dtype() == port.labels->type;
  Tensor out = dense;
  if (!same) {
    KILN_ASSIGN_OR_RETURN(out, TryAllocate(port.labels->type, given.shape()));
  }
  if (same && !unit) return out;
  const bool floats = IsFloat(dense.dtype());
  for (int64_t i = 0; i < dense.num_elements(); ++i) {
    const double label = floats ? ReadFloat(dense, i) : static_cast<double>(ReadInt(dense, i));
    if (unit && !(label >= 0 && label <= 1))
      return Invalid(Element(i, dense), " is ", label,
                     "; labels of a binary cross-entropy are from 0 to 1");
    if (!same) WriteFloat(out, i, label);
  }
  return out;
}

}  // namespace

absl::Status CheckLoss(const Loss& loss) {
  if (const auto* entropy = std::get_if<CrossEntropyLoss>(&loss)) {
    if (!(entropy->label_smoothing >= 0 && entropy->label_smoothing < 1))
      return Invalid("loss: label_smoothing is ", entropy->label_smoothing,
                     "; it is from 0 to below 1");
    if (entropy->class_axis != 1 && entropy->class_axis != -1)
      return Invalid("loss: class_axis is ", entropy->class_axis, "; it is 1 or -1");
  }
  const auto* huber = std::get_if<HuberLoss>(&loss);
  if (huber != nullptr && !(huber->delta > 0 && std::isfinite(huber->delta)))
    return Invalid("loss: delta is ", huber->delta, "; it is above 0");
  return absl::OkStatus();
}

bool HasLabels(const Loss& loss) { return !std::holds_alternative<OutputLoss>(loss); }

absl::StatusOr<LossPort> LabelsOf(const Loss& loss, const Value& output, const std::string& name) {
  const auto wrong = [&](absl::string_view expected) {
    return Invalid("loss: output \"", Printable(output.name), "\" is ", Name(output.type), " ",
                   ToString(output.shape), "; expected ", expected);
  };
  if (!IsFloat(output.type)) return wrong("floats");
  LossPort port;
  if (!HasLabels(loss)) {
    if (!Product(output.shape).IsConst(1)) return wrong("one element");
    return port;
  }
  port.labels = PortInfo{name, output.type, output.shape};
  const auto* const entropy = std::get_if<CrossEntropyLoss>(&loss);
  if (entropy == nullptr) return port;
  if (output.shape.size() < 2) return wrong("a batch of classes, [n, classes]");
  const auto axis =
      output.shape.begin() + static_cast<std::ptrdiff_t>(ClassAxis(*entropy, output.shape.size()));
  port.classes = *axis;
  port.labels->type = DType::kI64;
  port.labels->shape.erase(port.labels->shape.begin() + (axis - output.shape.begin()));
  return port;
}

absl::StatusOr<ValueId> AddLoss(GraphBuilder& b, const Loss& loss, ValueId output, ValueId labels) {
  KILN_RETURN_IF_ERROR(b.status());
  const ValueId value = std::visit(Adder{b, output, labels}, loss);
  KILN_RETURN_IF_ERROR(b.status());
  return value;
}

absl::StatusOr<std::optional<int64_t>> ClassesOf(const LossPort& port, const Graph& model,
                                                 const std::vector<Tensor>& inputs) {
  if (!port.classes) return std::nullopt;
  if (const std::optional<int64_t> classes = port.classes->constant()) return classes;
  std::vector<CheckedPort> ports;
  std::vector<InputInfo> infos;
  for (size_t k = 0; k < model.inputs().size(); ++k) {
    const Value& value = model.value(model.inputs()[k]);
    CheckedPort& own = ports.emplace_back();
    own.name = value.name;
    own.type = value.type;
    own.shape = value.shape;
    const bool readable = inputs[k].device().kind == DeviceKind::kCpu && IsInt(inputs[k].dtype());
    if (value.shape_content && readable) own.elements = *value.shape_content;
    infos.push_back({value.name, true, inputs[k]});
  }
  KILN_ASSIGN_OR_RETURN(const SymbolValues symbols, BindSymbols(ports, infos));
  const absl::StatusOr<int64_t> classes = port.classes->Evaluate(symbols);
  if (absl::IsNotFound(classes.status())) return std::nullopt;
  KILN_RETURN_IF_ERROR(classes.status());
  return *classes;
}

absl::StatusOr<Tensor> AsLabels(const Loss& loss, const LossPort& port,
                                std::optional<int64_t> classes, const Tensor& given) {
  if (given.device().kind != DeviceKind::kCpu)
    return Invalid("labels: they lie on a device; give them in memory of the host");
  if (const auto* entropy = std::get_if<CrossEntropyLoss>(&loss))
    return AsClasses(*entropy, classes, given);
  return AsNumbers(port, given, std::holds_alternative<BinaryCrossEntropyLoss>(loss));
}

}  // namespace kiln::training
