// SPDX-License-Identifier: Apache-2.0
// A model file, and its graph for given inputs: the structure of some models depends on values of
// their inputs, such as the axes of a reduction, or on their shapes, such as a range counted in
// floats.
//
//   KILN_ASSIGN_OR_RETURN(ModelSource source, ModelSource::Read("net.onnx"));
//   source.inputs();                                         // as the file declares them
//   KILN_ASSIGN_OR_RETURN(auto import, source.For({{"x", x}, {"axes", axes}}));
//
// Whoever runs a model and whoever compiles it ahead for given shapes take the same import here,
// and so the same kernels.
#ifndef KILN_COMPILER_MODEL_SOURCE_H_
#define KILN_COMPILER_MODEL_SOURCE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/tensor.h"
#include "exec/provider.h"
#include "graph/graph.h"
#include "graph/onnx/import.h"
#include "kiln/options.h"

namespace kiln {

// What of the options decides how a model file is read.
OnnxImportOptions ImportOptionsOf(const CompileOptions& options);

class ModelSource {
 public:
  // ONNX, or text where the name ends in ".graph"; of the latter there is only the graph. Errors as
  // ImportOnnx and ParseGraph, naming the file; nodes that need values or shapes of inputs are
  // none. For inputs the same bytes are imported again, whatever has come in the file's place.
  // kInvalidArgument: only with the values of updatable constants does the model have a meaning.
  static absl::StatusOr<ModelSource> Read(const std::string& path,
                                          const OnnxImportOptions& options = {});
  // The same for an ONNX file that was imported with these options and allow_unsupported; external
  // data that this import did not look at are opened now.
  static ModelSource Of(const std::string& path, OnnxImport import,
                        const OnnxImportOptions& options = {});

  // The updatable constants, without reading the rest of a model of which Programs are known.
  static absl::StatusOr<std::vector<Tensor>> ReadUpdatable(const std::string& path,
                                                           const OnnxImportOptions& options);

  bool needs_inputs() const { return needs_inputs_; }
  // The model; if it needs inputs, what could be imported without: all inputs at least.
  const std::shared_ptr<const OnnxImport>& import() const { return import_; }
  const Graph& graph() const { return import_->graph; }
  // What the model takes and gives, for whichever inputs. The last inputs are the constants that
  // OnnxImportOptions::updatable names; `updatable`: what they are in the model.
  std::vector<PortInfo> inputs() const;
  const std::vector<Tensor>& updatable() const { return import_->updatable; }
  std::vector<PortInfo> outputs() const;

  // The import that holds for `inputs`, as ImportOnnxFor.
  absl::StatusOr<std::shared_ptr<const OnnxImport>> For(
      const std::map<std::string, Tensor>& inputs) const;
  // The import for the shapes of `inputs` alone, whether it is needed or not: what has few steps of
  // a recurrent network is then no loop.
  absl::StatusOr<std::shared_ptr<const OnnxImport>> ForShapes(
      const std::map<std::string, Tensor>& inputs) const;
  // Its graph for tensors in the order of the model's inputs.
  absl::StatusOr<Graph> GraphFor(const std::vector<Tensor>& inputs) const;

 private:
  ModelSource(const std::string& path, const OnnxImportOptions& options, OnnxImport import,
              bool needs_inputs);

  std::string path_;
  OnnxImportOptions options_;
  std::shared_ptr<const OnnxImport> import_;
  bool needs_inputs_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_MODEL_SOURCE_H_
