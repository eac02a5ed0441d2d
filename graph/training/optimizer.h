// SPDX-License-Identifier: Apache-2.0
// Optimizers: one update of parameters by their gradients, as graph code.
//
// An update is element-wise, so that it is written once for tensors of any shape: one parameter, or
// all parameters of a model back to back (flat_tensors.h), which are then updated by one kernel.
// What changes from update to update is a value of the graph, and no attribute: the learning rate
// and the number of the update. Moments and the number are states of the program (StateBuffer in
// kiln/model.h), written in place.
//
//   ValueId p = b.Input("p", kF32, {n}), m = b.Input("m", kF32, {n}), v = b.Input("v", kF32, {n});
//   ValueId lr = b.Input("lr", kF32, {}), step = b.Input("step", kI64, {});
//   ValueId t = b.Op("add", {step, one});
//   KILN_ASSIGN_OR_RETURN(const Updated next,
//                         Update(b, AdamW{.weight_decay = 0.1}, p, gradient, {m, v}, lr, t));
//   b.Output(next.parameter, "p_next"); ...       // states {p, p_next}, {m, m_next}, {step, t}
//
// Options and formulas are in kiln/training.h.
#ifndef KILN_GRAPH_TRAINING_OPTIMIZER_H_
#define KILN_GRAPH_TRAINING_OPTIMIZER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/graph.h"
#include "kiln/training.h"

namespace kiln::training {

// kInvalidArgument names the option and its range.
absl::Status CheckOptimizer(const Optimizer& optimizer);

// The moments that an update keeps, each of the parameter's shape, as torch names them ("exp_avg").
std::vector<std::string> MomentNames(const Optimizer& optimizer);

struct Updated {
  ValueId parameter;
  std::vector<ValueId> moments;
};
// The parameter and moments after update number `t` (i64, one element; the first is 1, and Adam
// takes 0 as "no bias correction", as ONNX has it). `lr`: one element of a float type. The result
// has the types of `parameter` and `moments`, of which there is one for each name. Errors are
// CheckOptimizer's and the builder's.
absl::StatusOr<Updated> Update(GraphBuilder& b, const Optimizer& optimizer, ValueId parameter,
                               ValueId gradient, const std::vector<ValueId>& moments, ValueId lr,
                               ValueId t);

// Gradients times min(1, max_norm / (norm + 1e-6)), where norm is the square root of the sum of all
// their squares, as torch's clip_grad_norm_.
struct Clipped {
  std::vector<ValueId> gradients;
  ValueId norm;  // before, one element
};
Clipped ClipByGlobalNorm(GraphBuilder& b, const std::vector<ValueId>& gradients, double max_norm);
// Each element kept within [-limit, limit]; NaN stays.
ValueId ClipByValue(GraphBuilder& b, ValueId gradient, double limit);

}  // namespace kiln::training

#endif  // KILN_GRAPH_TRAINING_OPTIMIZER_H_
