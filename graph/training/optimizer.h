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
// The formulas are those of torch.optim (2.x, its defaults too) but for Lion, which is that of Chen
// et al., "Symbolic discovery of optimization algorithms" (2023). Below, t counts from 1, g is the
// gradient, and moments begin as zeros. What all elements share (bias corrections) is computed in
// f64 from lr and t and rounded once to the type that the update computes in: the parameter's, f32
// for 16-bit floats.
#ifndef KILN_GRAPH_TRAINING_OPTIMIZER_H_
#define KILN_GRAPH_TRAINING_OPTIMIZER_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/graph.h"

namespace kiln::training {

// g += weight_decay p
// buffer = momentum buffer + (1 - dampening) g;  without dampening where t is 1
// p -= lr buffer, or nesterov: lr (g + momentum buffer);  without momentum: lr g
struct Sgd {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};

// g += weight_decay p
// m += (1 - beta1) (g - m),  v = beta2 v + (1 - beta2) g g
// p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  // Epsilon is added to sqrt(v) before its correction, the "epsilon hat" of Kingma and Ba, which
  // ONNX has: p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon).
  bool epsilon_hat = false;
};

// p *= 1 - lr weight_decay, then as Adam without weight decay.
struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
};

// g += weight_decay p
// sum += g g
// p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + epsilon)
struct Adagrad {
  double lr_decay = 0, weight_decay = 0, epsilon = 1e-10;
};

// g += weight_decay p
// square = alpha square + (1 - alpha) g g
// centered: mean += (1 - alpha) (g - mean), and below square - mean mean in place of square
// buffer = momentum buffer + g / (sqrt(square) + epsilon)
// p -= lr buffer
struct RmsProp {
  double alpha = 0.99, epsilon = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
};

// c = beta1 m + (1 - beta1) g
// p = p (1 - lr weight_decay) - lr sign(c)
// m = beta2 m + (1 - beta2) g
struct Lion {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

using Optimizer = std::variant<Sgd, Adam, AdamW, Adagrad, RmsProp, Lion>;

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
