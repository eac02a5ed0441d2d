// SPDX-License-Identifier: Apache-2.0
// An operator that the program around Kiln brings along. It is passed by value of a shared pointer
// (CompileOptions::custom_ops, OnnxImportOptions::custom_ops); there is no registry.
//
//   auto op = std::make_shared<CustomOp>();
//   op->domain = "my.company";
//   op->name = "Clamp01";
//   op->compose = [](GraphBuilder& b, const CustomCall& call) -> absl::StatusOr<...> {
//     return std::vector{b.Op("clip", {call.inputs[0], b.Scalar(kF32, 0), b.Scalar(kF32, 1)})};
//   };
//
// One of two forms: `compose` writes the op with others, and is optimised with all around it; `run`
// computes it on the host between kernels, for inputs that lie dense on the CPU. Either may have a
// `gradient` of its own; without one, `run` has none and `compose` that of what it writes.
#ifndef KILN_GRAPH_CUSTOM_OP_H_
#define KILN_GRAPH_CUSTOM_OP_H_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln {

// One use of the op. Attributes are the node's: integers, floats, strings, lists and tensors.
struct CustomCall {
  std::vector<ValueId> inputs;  // invalid where absent
  const Attrs& attrs;
};
struct CustomOutput {
  DType type = DType::kF32;
  Shape shape;
};

struct CustomOp {
  std::string domain, name;
  Attrs attrs;  // set by import: those of the node

  std::function<absl::StatusOr<std::vector<ValueId>>(GraphBuilder& b, const CustomCall& call)>
      compose;

  // With `run`: types and shapes of the outputs from those of the inputs (absent ones are null).
  std::function<absl::StatusOr<std::vector<CustomOutput>>(std::span<const Value* const> inputs,
                                                          const Attrs& attrs)>
      infer;
  // Fills dense outputs of the inferred types and shapes. Thread-safe.
  std::function<absl::Status(std::span<const Tensor> inputs, const Attrs& attrs,
                             std::span<Tensor> outputs)>
      run;
  // Optional: adds what gives the cotangents of the inputs from those of the outputs. An invalid id
  // is a zero, on both sides. What it adds may be another custom op.
  std::function<absl::StatusOr<std::vector<ValueId>>(GraphBuilder& b, const CustomCall& call,
                                                     const std::vector<ValueId>& outputs,
                                                     const std::vector<ValueId>& cotangents)>
      gradient;
};

// Enters one use of `op`: what it composes (where it has a gradient, a node that becomes that when
// composites are expanded), or a node that runs it. Errors name the op.
absl::StatusOr<std::vector<ValueId>> AddCustomOp(Graph& graph, const CustomOp& op,
                                                 const CustomCall& call, const std::string& name);
// Of a node of op "custom" or "composed".
const CustomOp& CustomOpOf(const Node& node);

}  // namespace kiln

#endif  // KILN_GRAPH_CUSTOM_OP_H_
