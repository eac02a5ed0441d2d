// SPDX-License-Identifier: Apache-2.0
// Importer: what the files of the import share. Not for users: import.h is.
//
// Names of a model live in scopes. The main graph is one; so is each branch, loop body and function
// body. A scope writes its nodes into a Graph: a function, and a branch that is chosen at import,
// into that of the scope that asks for it; other branches and bodies into a Graph of their own,
// which then takes what it uses of the graph around as captures: inputs that the node feeds.
#ifndef KILN_GRAPH_ONNX_IMPORTER_H_
#define KILN_GRAPH_ONNX_IMPORTER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/import.h"
#include "graph/onnx/onnx.pb.h"
#include "graph/onnx/symbols.h"
#include "graph/onnx/tensor_proto.h"

namespace kiln::onnx {

std::string Quoted(absl::string_view name);

// What a name in the model stands for. A sequence has its tensors' values: it exists at import
// only.
struct Slot {
  enum class Kind : uint8_t { kTensor, kSequence, kNone };  // kNone: an optional without a value
  Kind kind = Kind::kTensor;
  ValueId id = {};          // of a tensor; invalid: there is no value, because
  std::string reason = {};  // this is not supported; empty: because a node before is not
  std::vector<ValueId> items = {};

  bool missing() const { return kind == Kind::kTensor && !id.valid(); }
};

struct Scope {
  Graph* graph = nullptr;
  Scope* parent = nullptr;  // where names are looked up that are not here
  std::map<std::string, int64_t> opsets = {};
  std::unordered_map<std::string, Slot> slots = {};
  // If the graph is not the parent's: the parent's values that it takes, and what they are here.
  // Constants become constants; the others are inputs, in the order of `captures`.
  std::map<ValueId, ValueId> known = {};
  std::vector<ValueId> captures = {};
};

class Importer {
 public:
  Importer(const ModelProto& model, const OnnxImportOptions& options, TensorSource& source)
      : model_(model), options_(options), source_(source) {}

  absl::StatusOr<OnnxImport> Run();

 private:
  // ---- importer.cc: the main graph
  absl::Status ReadHeader();
  absl::Status AddInitializers(Scope& scope, const GraphProto& graph);
  absl::Status AddInputs();
  // Inputs for the constants that are to be updatable.
  absl::Status AddUpdatable();
  bool IsUpdatable(const Scope& scope, const std::string& name) const;
  absl::Status AddInput(const ValueInfoProto& input);
  Shape DeclaredShape(const ValueInfoProto& value);
  absl::Status AssumeValue(const std::string& name, const Tensor& value);
  absl::Status AddOutputs();
  void WarnOfShape(const ValueInfoProto& output, const Shape& made) const;
  absl::Status UnsupportedError() const;

  // ---- import_node.cc: nodes
  absl::Status AddNodes(Scope& scope, const google::protobuf::RepeatedPtrField<NodeProto>& nodes);
  absl::Status AddNode(Scope& scope, const NodeProto& node);
  absl::Status CountInner(int64_t nodes = 1);  // more of a function, branch, body or sequence
  absl::Status CountBody();
  absl::Status Define(Scope& scope, const std::string& name, Slot slot);
  // Null: no such name. Captures what the scope's graph does not have.
  const Slot* Find(Scope& scope, const std::string& name);
  ValueId Capture(Scope& scope, ValueId outer);
  absl::StatusOr<std::vector<Slot>> Resolve(Scope& scope, const NodeProto& node);
  absl::Status Convert(Scope& scope, const Converter& converter, const NodeProto& node,
                       const std::vector<ValueId>& inputs, std::vector<Slot>& outputs);
  ValueId FindValue(const Graph& graph, const std::string& name) const;
  // If `status` asks for the value of an input that constants decide: puts a constant in its place
  // and tells so.
  bool SettleNeeded(Scope& scope, const absl::Status& status, std::vector<ValueId>& inputs);
  // Adds the graph inputs that the value is made of to value_inputs; false, adding none, if one of
  // them is larger than an operand that describes a structure.
  bool NoteNeeded(Scope& scope, const std::string& name);
  // If `status` asks for the elements of an integer value that is computed: has them become symbols
  // and tells so.
  bool MakeElements(Scope& scope, const absl::Status& status, std::vector<ValueId>& inputs);
  // kUnimplemented, of open extents, if no graph can be made under a guard from the `first` on.
  //   - It is about elements that extents alone decide. Lists of extents behind it say what holds
  //     under it alone, and a part of the graph that learns when it runs that it does not hold has
  //     nothing to make them from again.
  //   - It does not go together with the guards before it: no extents are left.
  absl::Status CheckGuards(const Graph& graph, size_t first) const;
  // ---- found_extents.cc: extents that only a run finds out
  // Takes the guards about them off the graph, for those of one node to be seen.
  std::vector<Guard> SetAsideFound(Graph& graph) const;
  // Puts values in place of the node's outputs whose extents hold without the guards about found
  // extents from the `first` on.
  absl::Status Measure(Graph& graph, size_t first, std::vector<Slot>& outputs);
  void Unsupported(const NodeProto& node, int64_t opset, std::string reason,
                   bool needs_values = false);

  // ---- functions.cc
  const FunctionProto* FindFunction(const NodeProto& node) const;
  // Before anything is expanded: no function is cyclic, and all that the model calls has a bounded
  // size.
  absl::Status CheckFunctions();
  struct Expansion {
    int64_t nodes = 0;
    int depth = 0;
  };
  absl::StatusOr<Expansion> ExpansionOf(const FunctionProto& function);
  absl::StatusOr<Expansion> ExpansionOf(const google::protobuf::RepeatedPtrField<NodeProto>& nodes);
  absl::Status Expand(Scope& scope, const NodeProto& node, const FunctionProto& function,
                      const std::vector<Slot>& inputs, std::vector<Slot>& outputs);
  absl::Status AddCustom(Scope& scope, const NodeProto& node, const CustomOp& op,
                         const std::vector<ValueId>& inputs, std::vector<Slot>& outputs);
  std::shared_ptr<const CustomOp> FindCustom(const NodeProto& node) const;

  // ---- sequences.cc: false if it is none of these operators
  absl::StatusOr<bool> AddSequenceOp(Scope& scope, const NodeProto& node,
                                     const std::vector<Slot>& inputs, std::vector<Slot>& outputs);

  // ---- gradient.cc
  absl::Status AddGradient(Scope& scope, const NodeProto& node, const std::vector<Slot>& inputs,
                           std::vector<Slot>& outputs);

  // ---- control_flow.cc
  absl::Status AddIf(Scope& scope, const NodeProto& node, const std::vector<Slot>& inputs,
                     std::vector<Slot>& outputs);
  absl::Status AddLoop(Scope& scope, const NodeProto& node, const std::vector<Slot>& inputs,
                       std::vector<Slot>& outputs);
  absl::Status AddScan(Scope& scope, const NodeProto& node, const std::vector<Slot>& inputs,
                       std::vector<Slot>& outputs);
  struct BodyGraph {
    Graph graph;
    std::vector<ValueId> captures;
    bool complete = true;  // false: it has a node that is not supported
  };
  absl::StatusOr<BodyGraph> ImportBranch(Scope& scope, const GraphProto& proto,
                                         const std::string& name,
                                         const std::vector<ValueId>& captures);
  struct LoopParts;
  absl::StatusOr<BodyGraph> ImportLoopBody(Scope& scope, const LoopParts& parts,
                                           const std::vector<Shape>& state_shapes);
  absl::StatusOr<std::vector<ValueId>> EmitLoop(Scope& scope, const LoopParts& parts);
  absl::StatusOr<std::vector<ValueId>> EmitScan(Scope& scope, const LoopParts& parts);
  absl::Status RunBody(Scope& scope, const GraphProto& proto, std::vector<ValueId>& results);
  // Whether the model's inputs decide all that a branch or body assumes. Then a variant of the
  // whole model holds where it does; else only a run tells, and extents of its results with it.
  bool AssumesOnlyInputs(const Graph& body) const;
  // Adds what a branch or body of a node of `graph` assumes of the model's inputs: extents around
  // it say it too, also where the node itself turns out to be dead.
  void AdoptGuards(Graph& graph, const Graph& body) const;

  const ModelProto& model_;
  const OnnxImportOptions& options_;
  TensorSource& source_;
  OnnxImport out_;
  Scope main_;
  Symbols symbols_;
  std::unordered_set<std::string> read_;
  std::set<std::string> shape_elements_;  // symbols of elements that extents alone decide
  std::map<std::string, const FunctionProto*> functions_;
  std::set<const FunctionProto*> active_;  // functions that are being looked into
  std::map<const FunctionProto*, Expansion> expansions_;
  int64_t inner_nodes_ = 0;  // written so far in functions, branches and bodies
  int64_t sequence_items_ = 0;
  int64_t work_left_ = kMaxInterpretedWork;  // of what is computed at import
  int64_t bodies_ = 0;                       // branches and bodies looked at so far
};

// The constant with this name among those of the main graph that can be updatable; kInvalidArgument
// names others.
absl::StatusOr<const TensorProto*> FindUpdatable(const ModelProto& model, const std::string& name);
absl::StatusOr<Tensor> UpdatableTensor(const ModelProto& model, const std::string& name,
                                       TensorSource& source);

// Names that a node, a Gradient, or an output of the model, a body or a function reads, of all
// scopes together. A node's output that is not among them need not be made: torch names the running
// statistics of a batch norm in training, which nothing reads.
std::unordered_set<std::string> ReadNames(const ModelProto& model);

// Whether nothing but the shapes of inputs decides the value.
bool FollowsFromShapes(const Scope& scope, ValueId value);

std::string DomainOf(absl::string_view domain);
std::string OperatorOf(const NodeProto& node);
std::string Subject(const NodeProto& node);
const AttributeProto* FindAttribute(const NodeProto& node, absl::string_view name);

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_IMPORTER_H_
