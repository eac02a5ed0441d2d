// SPDX-License-Identifier: Apache-2.0
// Compile: from a model to something that runs.
//
//   kiln::CompileOptions options;
//   options.graph_opt_level = 3;
//   absl::StatusOr<kiln::Model> model = kiln::Compile("net.onnx", options);
//   if (!model.ok()) { std::cerr << model.status().message() << "\n"; return 1; }
//   absl::StatusOr<std::vector<kiln::Tensor>> y = model->Run({{"x", x}});
//
// All functions are thread-safe.
#ifndef KILN_COMPILE_H_
#define KILN_COMPILE_H_

#include "absl/strings/string_view.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "kiln/status.h"

namespace kiln {

class Graph;  // graph/graph.h

// Reads a model file: ONNX, or Kiln's text form where the name ends in ".graph". Errors as
// ImportOnnx and ParseGraph, naming the file.
absl::StatusOr<Graph> ReadModel(absl::string_view path);

// Compiles a model and, in `block` mode, builds all kernels it needs. What the cache has of a model
// file, its Program and kernels, is fetched instead. A package (LoadPackage; its name ends in
// ".kiln") is loaded as it is. kInvalidArgument: the model or an option is wrong; kUnimplemented:
// lists what is not supported. Never fails for want of a compiler, a cache or disk space.
absl::StatusOr<Model> Compile(absl::string_view path, const CompileOptions& options);
absl::StatusOr<Model> Compile(Graph graph, const CompileOptions& options);
}  // namespace kiln

#endif  // KILN_COMPILE_H_
