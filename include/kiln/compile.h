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

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/graph.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "kiln/status.h"

namespace kiln {

// Compiles a model and, in `block` mode, builds all kernels it needs. What the cache has of a model
// file, its Program and kernels, is fetched instead. A package (LoadPackage; its name ends in
// ".kiln") is loaded as it is. kInvalidArgument: the model or an option is wrong; kUnimplemented:
// lists what is not supported. Never fails for want of a compiler, a cache or disk space.
KILN_API absl::StatusOr<Model> Compile(absl::string_view path, const CompileOptions& options);
KILN_API absl::StatusOr<Model> Compile(GraphBuilder graph, const CompileOptions& options);

// A model file that is in memory.
struct ModelBytes {
  const void* data = nullptr;
  size_t size = 0;
  // Keeps `data` alive and as it is, for as long as a Model of it lives; weights are read where
  // they lie. Null: Compile copies.
  std::shared_ptr<const void> owner = nullptr;
  // What messages call it. As with files, ".graph" at its end is Kiln's text form, ".kiln" a
  // package.
  std::string name = "model";
  // Where external data lie; empty: a model that has some is an error.
  std::string folder = "";
};
// The regular file behind a descriptor that can be read, mapped: whoever cuts the file short then
// ends this process when it reads there. The descriptor is the caller's, and not needed any more.
KILN_API absl::StatusOr<ModelBytes> MapModel(int descriptor);
KILN_API absl::StatusOr<Model> Compile(const ModelBytes& bytes, const CompileOptions& options);

// What a model takes and gives, without compiling it.
struct ModelDescription {
  std::vector<PortInfo> inputs, outputs;
  std::string form;                      // "onnx", "graph", "package"
  std::vector<std::string> unsupported;  // operators that Compile would refuse
};
KILN_API absl::StatusOr<ModelDescription> Describe(absl::string_view path);
KILN_API absl::StatusOr<ModelDescription> Describe(const ModelBytes& bytes);
}  // namespace kiln

#endif  // KILN_COMPILE_H_
