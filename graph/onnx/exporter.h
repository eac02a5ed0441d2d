// SPDX-License-Identifier: Apache-2.0
// What the files of the export share. Not for users: export.h is.
//
// Every graph that is written, the main one and each body, has an ExportScope: the names of its
// values, and the list of nodes that grows. WriteNode writes the ONNX nodes of one node; they go
// to a function's list while that function is written, except for arithmetic on extents, which
// stands before the call so that a function needs no inputs of the graph.
#ifndef KILN_GRAPH_ONNX_EXPORTER_H_
#define KILN_GRAPH_ONNX_EXPORTER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/onnx/onnx.pb.h"

namespace kiln::onnx {

inline constexpr int64_t kWrittenOpset = 20;  // the operator set of models that are written

using NodeList = google::protobuf::RepeatedPtrField<NodeProto>;
// Floats are doubles: an integer literal must not become one.
using ExportAttr =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, Tensor, GraphProto>;
using ExportAttrs = std::vector<std::pair<std::string, ExportAttr>>;

// Names that are taken, in a model.
class ExportNames {
 public:
  // `wish`, or it with a number behind.
  std::string Fresh(const std::string& wish);

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> next_;
};

class ExportScope {
 public:
  ExportScope(const Graph& graph, ExportScope* parent, ExportNames& names, GraphProto* proto);

  const Graph& graph() const { return graph_; }
  ExportNames& names() { return names_; }
  ExportScope* parent() const { return parent_; }
  GraphProto* proto() { return proto_; }
  // Where nodes go; the graph's own list unless a function is being written.
  NodeList* list() { return list_; }
  void set_list(NodeList* list) { list_ = list; }
  bool in_function() const { return list_ != proto_->mutable_node(); }

  void SetName(ValueId id, std::string name) { value_names_[id] = std::move(name); }
  // The value's name. A constant is written at its first use.
  std::string NameOf(ValueId id);

  // Appends a node and gives its first output's name, which is made up unless given.
  std::string Add(const std::string& op, const std::vector<std::string>& inputs,
                  const ExportAttrs& attrs = {}, std::vector<std::string> outputs = {});
  // A constant where the next node goes: a node in a function, or if it is `literal`
  // (Value::literal), else an initializer.
  std::string Constant(const Tensor& tensor, const std::string& wish, bool literal = false);
  std::string Ints(const std::vector<int64_t>& values);  // i64 [size]

  // i64 [rank], from numbers or by arithmetic on the extents of inputs. kUnimplemented if a symbol
  // has no source.
  absl::StatusOr<std::string> Extents(const Shape& shape);

 private:
  absl::StatusOr<std::string> Extent(const Dim& dim);
  absl::StatusOr<std::string> Atom(const Dim::Atom& atom);
  absl::StatusOr<std::string> Symbol(const std::string& symbol);

  const Graph& graph_;
  ExportScope* const parent_;
  ExportNames& names_;
  GraphProto* const proto_;
  NodeList* list_;
  std::map<ValueId, std::string> value_names_;
  std::map<std::string, std::string> extents_;  // by the text of a Dim
};

// Writes the ONNX nodes of one node into the scope's list. Its inputs have names.
absl::Status WriteNode(ExportScope& scope, const Node& node);
// All nodes of a graph that no function has, as they stand.
absl::Status WriteNodes(ExportScope& scope);

int32_t ToOnnxType(DType type);
void FillTensor(const Tensor& tensor, const std::string& name, TensorProto* proto);
void FillPort(const Value& value, const std::string& name, ValueInfoProto* proto);

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_EXPORTER_H_
