// SPDX-License-Identifier: Apache-2.0
// ImportOnnx: an ONNX model file becomes a Graph of the op registry.
//
//   KILN_ASSIGN_OR_RETURN(OnnxImport model, ImportOnnx("resnet50.onnx"));
//   model.graph.outputs()[0].name;  // as in the file, as are the names of all values and nodes
//
// Operator set versions 6 and up. What the importer does beyond a table of operators (converter.h):
//   - Names of input dimensions become symbols; a name that occurs twice is one symbol, and running
//     with two different extents is refused or gets its own variant. Empty, "?", "None", negative
//     and generated names ("unk__7") say nothing: each is a fresh symbol, "<input>_dim<axis>".
//   - An initializer that is also a graph input is a constant.
//   - Functions are expanded; If, Loop and Scan become `if` and `loop`, or what a constant
//     condition chooses; sequences and optional values exist at import only.
//   - Shape arithmetic stays in the graph as nodes; inference evaluates it symbolically.
//   - Weights are views of the mapped file (mapped_file.h) where they are aligned, and copies
//     elsewhere.
// The file is untrusted: see limits.h. Messages name the node or the value.
#ifndef KILN_GRAPH_ONNX_IMPORT_H_
#define KILN_GRAPH_ONNX_IMPORT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/onnx/limits.h"
#include "graph/onnx/mapped_file.h"
#include "graph/onnx/tensor_proto.h"

namespace kiln {

struct OnnxImportOptions {
  // Bytes that all constant tensors may have together, those that converters make included.
  int64_t max_total_bytes = onnx::kDefaultMaxTotalBytes;
  onnx::Links external_links = onnx::Links::kRefuse;  // on the way to external data
  // Shapes of graph inputs, by name, in place of those in the file.
  std::map<std::string, Shape> input_shapes = {};
  // Values of graph inputs on which the graph's structure depends, such as axes given as an input,
  // dense and on the CPU. The import holds for these only: a guard (kValue) says so.
  std::map<std::string, Tensor> input_values = {};
  // Import what can be, and list the rest in OnnxImport::unsupported, instead of failing. The graph
  // then lacks nodes and outputs, and is good for looking at only.
  bool allow_unsupported = false;
  // Operators of the caller's; they come before functions of the model.
  std::vector<std::shared_ptr<const CustomOp>> custom_ops = {};
  // Constants of the main graph that become inputs, in this order behind the model's own:
  // initializers, and Constant nodes with a tensor, by the name of what they make.
  std::vector<std::string> updatable = {};
  // For training: Dropout drops (`dropout`) in every mode, and BatchNormalization in training mode
  // is one by running means and variances (`batch_norm`) where nothing reads what they become. Who
  // trains replaces them by what training is.
  bool training = false;
  // The model in place of the file; paths are then names for messages.
  std::shared_ptr<const onnx::ModelMemory> memory = nullptr;
};

struct UnsupportedNode {
  std::string node;  // its name; of a nameless node that of its first output
  std::string op;    // with its domain where that is not ONNX's own: "com.microsoft.FusedMatMul"
  // Version of the domain's operator set that the model asks for; 0: the model does not say.
  int64_t opset = 0;
  std::string reason;  // empty: the operator is not in the table
  // It would be supported if the values of OnnxImport::value_inputs were given.
  bool needs_values = false;
  // It may be supported once the extents of the inputs are known.
  bool needs_extents = false;
};

// A graph output as the file declares it; what it leaves open is a symbol, or the whole shape.
struct DeclaredOutput {
  std::string name;
  DType type = DType::kF32;
  std::optional<Shape> shape;
};

struct OnnxImport {
  Graph graph;
  int64_t ir_version = 0;
  std::string producer;                         // name and version
  std::map<std::string, int64_t> opsets;        // by domain; ONNX's own is ""
  std::map<std::string, std::string> metadata;  // metadata_props
  std::vector<UnsupportedNode> unsupported;  // in the file's order; empty unless allow_unsupported
  // Graph inputs whose values decide the structure of the unsupported nodes that need values, such
  // as the axes of a reduction.
  std::vector<std::string> value_inputs;
  std::vector<DeclaredOutput> declared_outputs;  // those that are tensors of a known type
  std::string undeclared_output;                 // the first of which the file tells no type
  // Whence constants came: for whoever wants to find their bytes again without importing.
  std::vector<onnx::TensorOrigin> origins;
  std::map<std::string, std::shared_ptr<onnx::MappedFile>> external;  // by location
  std::shared_ptr<onnx::MappedFile> file;                             // null: imported from memory
  int64_t tensor_bytes = 0;       // what counted towards max_total_bytes
  std::vector<Tensor> updatable;  // what the inputs that are constants of the model are there
};

// Whether the import of `path`, made with allow_unsupported, may be complete once inputs are given
// (ImportOnnxFor): no operator is missing, but some node needs values of inputs, or extents that
// the file leaves open. Other nodes behind may be supported then.
bool MayNeedInputs(absl::string_view path, const OnnxImport& import,
                   const OnnxImportOptions& options = {});

// Errors: kNotFound and the like for the file; kDataLoss where it is damaged; kResourceExhausted
// past a limit; kInvalidArgument where the model breaks ONNX's rules; kPermissionDenied for
// external data that leaves the model's folder, or lies behind links that are not to be followed;
// kUnimplemented lists all nodes that are not supported.
absl::StatusOr<OnnxImport> ImportOnnx(absl::string_view path,
                                      const OnnxImportOptions& options = {});

// The import for the values that `inputs`, dense tensors by name, has for those inputs on which the
// structure of the graph depends; the others stay free. So one import serves all inputs that agree
// in those values. Where that does not suffice the import holds for the shapes of `inputs` alone.
// Of a tensor without data only the shape is known; kUnimplemented names one whose value is needed.
absl::StatusOr<OnnxImport> ImportOnnxFor(absl::string_view path,
                                         const std::map<std::string, Tensor>& inputs,
                                         OnnxImportOptions options = {});

// The same from memory. Tensors view `bytes` when `owner`, which keeps them alive, is given.
// External data is refused.
absl::StatusOr<OnnxImport> ImportOnnxBytes(absl::string_view bytes,
                                           std::shared_ptr<void> owner = nullptr,
                                           const OnnxImportOptions& options = {});

// What OnnxImport::updatable of the same options is, without importing the rest.
absl::StatusOr<std::vector<Tensor>> ReadUpdatable(absl::string_view path,
                                                  const OnnxImportOptions& options);

// Names of the external data files that a model's tensors lie in, each once. Errors as
// ImportOnnxBytes, for what has to be read.
absl::StatusOr<std::vector<std::string>> ExternalLocations(absl::string_view bytes);

// The nodes for which ImportOnnx would fail with kUnimplemented; other errors as ImportOnnx.
absl::StatusOr<std::vector<UnsupportedNode>> ListUnsupported(absl::string_view path);

}  // namespace kiln

#endif  // KILN_GRAPH_ONNX_IMPORT_H_
