// SPDX-License-Identifier: Apache-2.0
// kiln inspect --emit-onnx: the graph after passes as an ONNX file.
#ifndef KILN_TOOLS_EMIT_ONNX_H_
#define KILN_TOOLS_EMIT_ONNX_H_

#include <string>

#include "absl/status/status.h"
#include "compiler/compile.h"
#include "graph/graph.h"

namespace kiln {

// Writes `graph` as it stands.
absl::Status EmitOnnx(const Graph& graph, const std::string& path);

// Writes the graph after passes. Every group of several nodes is a function of domain "kiln", with
// the metadata kiln.group (its number), kiln.kind, kiln.nodes and, of a kernel, kiln.kernel (its
// text).
absl::Status EmitOnnx(const Compiled& compiled, const std::string& path);

}  // namespace kiln

#endif  // KILN_TOOLS_EMIT_ONNX_H_
