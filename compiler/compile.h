// SPDX-License-Identifier: Apache-2.0
// Compile (kiln/compile.h), and what programs inside Kiln need around it: graphs, the kernel
// service, models that were opened before.
#ifndef KILN_COMPILER_COMPILE_H_
#define KILN_COMPILER_COMPILE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/compile_graph.h"
#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "compiler/warm_model.h"
#include "graph/graph.h"
#include "kiln/compile.h"

namespace kiln {

// Reads a model file: ONNX, or Kiln's text form where the name ends in ".graph". Errors as
// ImportOnnx and ParseGraph, naming the file.
absl::StatusOr<Graph> ReadModel(absl::string_view path);

// The options with the runtime that they mean, and where they do not say others its cache, number
// of builds and the target of its device.
CompileOptions WithRuntime(CompileOptions options);

absl::StatusOr<Model> Compile(Graph graph, const CompileOptions& options);
// A model opened before with these options, for callers that need its inputs and outputs first.
absl::StatusOr<Model> Compile(std::shared_ptr<WarmModel> opened, const CompileOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_COMPILE_H_
