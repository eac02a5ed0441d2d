// SPDX-License-Identifier: Apache-2.0
// NodeView: what a converter sees of one ONNX node, and how it answers.
//
// Attribute readers return the default and remember an error where the attribute has another type;
// the importer looks at status() after the converter, so that converters need no check per
// attribute. It also refuses a node with an attribute that its converter never asked for: unknown
// meaning is never dropped in silence.
//
//   absl::Status ConvertElu(NodeView& n) {
//     return n.Emit("elu", {n.in(0)}, {{"alpha", n.Float("alpha", 1)}});
//   }
#ifndef KILN_GRAPH_ONNX_NODE_VIEW_H_
#define KILN_GRAPH_ONNX_NODE_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/onnx/tensor_proto.h"
#include "kiln/graph.h"

namespace kiln::onnx {

class AttributeProto;
class NodeProto;
class Symbols;

class NodeView {
 public:
  // All arguments outlive the view. `inputs` has an id for each input; an absent one is invalid.
  // `read`: the names that anything in the model reads (ReadNames).
  // `outer`: the graph is the model's, not a body of a node; `training`: OnnxImportOptions.
  NodeView(const NodeProto& proto, int64_t opset, const char* record, std::vector<ValueId> inputs,
           Graph& graph, TensorSource& source, Symbols& symbols,
           const std::unordered_set<std::string>& read, bool outer = false, bool training = false);

  // The same node with its operands in another graph, such as a body that it is to have.
  NodeView Inside(Graph& graph, std::vector<ValueId> inputs) const {
    return NodeView(proto_, opset_, record_, std::move(inputs), graph, source_, symbols_,
                    names_read_,
                    /*outer=*/false, training_);
  }

  int64_t opset() const { return opset_; }
  bool training() const { return training_; }
  const char* record() const {
    return record_;
  }  // the op record that the table names for this operator, or ""

  // Inputs. in(k) is valid only if has(k); kInvalidArgument from Need otherwise.
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int k) const { return k < num_inputs() && inputs_[static_cast<size_t>(k)].valid(); }
  ValueId in(int k) const { return has(k) ? inputs_[static_cast<size_t>(k)] : ValueId{}; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const Value& value(int k) const { return value(in(k)); }
  const Value& value(ValueId id) const;  // of an absent one: a scalar
  int rank(int k) const { return static_cast<int>(value(k).shape.size()); }
  absl::Status Need(int least,
                    int most) const;  // the number of inputs; the first `least` are present

  // Outputs: whether the k-th is asked for: it has a name, and something reads that.
  int num_outputs() const;
  bool names(int k) const;  // whether the k-th has a name, read or not
  bool wants(int k) const;

  // What tells the node from other nodes that draw random numbers: by its first output's name, and
  // by those of its graph that have the same (nodes of a function that is called twice).
  int64_t RandomStream() const;

  // Attributes.
  bool HasAttr(absl::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(absl::string_view name, int64_t otherwise);
  double Float(absl::string_view name, double otherwise);
  std::string Text(absl::string_view name, absl::string_view otherwise);
  std::vector<int64_t> Ints(absl::string_view name, std::vector<int64_t> otherwise = {});
  std::vector<double> Floats(absl::string_view name);
  std::vector<std::string> Texts(absl::string_view name);
  std::optional<Tensor> TensorAttr(absl::string_view name);
  void Ignore(absl::string_view name) {
    read_.insert(std::string(name));
  }  // has no influence on inference
  // The first error of an attribute reader or of Op.
  const absl::Status& status() const { return status_.ok() ? builder_.status() : status_; }
  // An attribute that was neither read nor ignored; empty if there is none.
  std::string UnreadAttr() const;

  // The elements of an input that must be known at import. kUnimplemented, naming `what`, where
  // they come only at run time.
  absl::StatusOr<Shape> Content(int k, absl::string_view what) const;  // integers, maybe symbolic
  // The same; elements of a short graph input become symbols, so that a value which tells nothing
  // but extents makes no variant.
  absl::StatusOr<Shape> ContentOrSymbols(int k, absl::string_view what);
  absl::StatusOr<std::vector<int64_t>> ConstInts(int k, absl::string_view what) const;
  absl::StatusOr<std::vector<double>> ConstFloats(int k, absl::string_view what) const;

  // `axis` counted from 0; kInvalidArgument outside [-rank, rank).
  absl::StatusOr<int64_t> Axis(int64_t axis, int64_t rank) const;
  absl::StatusOr<std::vector<int64_t>> Axes(std::vector<int64_t> axes, int64_t rank) const;

  // Answers. Op adds a node on the way; a failure makes it and all that follows invalid and is
  // reported by the next Emit. Emit adds the node whose outputs are those of the ONNX node, under
  // their names; Give makes a value the k-th output (before Emit, where that makes only the first).
  ValueId Op(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  // The same for a record that leaves the number of outputs open; empty where it fails.
  std::vector<ValueId> Ops(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                           size_t outputs);
  // An extent that is found out when the node runs.
  Dim NewSymbol(absl::string_view wish);
  void Assume(Guard guard) { graph_.AddGuard(std::move(guard)); }
  // Assumes the guard; kInvalidArgument, with `why`, where it cannot hold.
  absl::Status Require(const Guard& guard, absl::string_view why);
  // Whether the model's inputs tell whether the guard holds. What a converter does because of
  // another is not done over where a run finds that it does not hold.
  bool IsTold(const Guard& guard) const;
  // Whether just this has been assumed before.
  bool Stands(const Guard& guard) const {
    return std::find(graph_.guards().begin(), graph_.guards().end(), guard) !=
           graph_.guards().end();
  }
  // a / b for a number b >= 1, without a remainder, which a guard excludes; nothing if there is
  // one.
  std::optional<Dim> Divided(const Dim& a, int64_t b);
  // For code that writes nodes with a builder; after a failure it does nothing.
  GraphBuilder& builder() { return builder_; }
  ValueId Scalar(DType type, double value) { return builder_.Scalar(type, value); }
  ValueId Ints64(const std::vector<int64_t>& values) { return builder_.Ints(values); }
  ValueId Constant(Tensor tensor);
  // Memory for a constant that a converter computes, taken off the budget of all tensors.
  // kResourceExhausted beyond it; `table`: also beyond kMaxTableElements of all tables, which are
  // much larger than what the file says of them.
  absl::StatusOr<Tensor> NewTensor(DType type, std::vector<int64_t> shape, bool table = false);
  // Does the same as a failed Op: kInvalidArgument with this message.
  ValueId Fail(std::string message);
  absl::Status Emit(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  absl::Status Give(int k, ValueId value);
  const std::vector<ValueId>& outputs() const { return outputs_; }

 private:
  const AttributeProto* Find(absl::string_view name) const;
  // The attribute if it is there and of this type; marks it as read.
  const AttributeProto* Typed(absl::string_view name, int type);

  const NodeProto& proto_;
  int64_t opset_;
  const char* record_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  Graph& graph_;
  TensorSource& source_;
  GraphBuilder builder_;
  std::string name_;
  std::set<std::string> read_;
  absl::Status status_;
  Symbols& symbols_;
  const std::unordered_set<std::string>& names_read_;
  const bool outer_;
  const bool training_;
};

// What an unnamed node is called: after its first output.
std::string NameOf(const NodeProto& node);

// The elements of a dense tensor, converted.
std::vector<int64_t> ToInts(const Tensor& tensor);
std::vector<double> ToDoubles(const Tensor& tensor);

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_NODE_VIEW_H_
