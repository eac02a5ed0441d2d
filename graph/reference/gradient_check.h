// SPDX-License-Identifier: Apache-2.0
// GradientCheck: gradients against differences of the function itself, in the float64 interpreter.
//
// The function is the sum of all float outputs, each element times a number of its own, so that
// every element of a Jacobian is seen. It is differentiated along single elements of small inputs,
// and along random directions of large ones, by the stencil
//   f'(0) = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h,
// whose error is of the order of h^4. Inputs and floats of the graph are f64 for this (InF64): then
// there is no rounding to speak of.
#ifndef KILN_GRAPH_REFERENCE_GRADIENT_CHECK_H_
#define KILN_GRAPH_REFERENCE_GRADIENT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

struct GradientCheckOptions {
  double relative = 1e-6, absolute = 1e-8;
  // Tried in turn: a kink that a stencil steps over is told by a shorter one, and a wrong gradient
  // is wrong for all.
  std::vector<double> steps = {1e-3};
  int64_t most_elements = 24;  // of an input, each by itself; of larger ones, `directions`
  int directions = 3;
  bool together = false;  // all inputs as one long one
  uint64_t seed = 1;
};

// The worst direction of one float input, or of all of them.
struct GradientComparison {
  std::string input;
  int64_t elements = 0;
  int64_t directions = 0;
  double gradient = 0, difference = 0;  // what the gradient says, and what differences say
  double of_bound = 0;                  // |gradient - difference| / what is allowed
  bool ok() const { return of_bound <= 1; }
};

// Of all float inputs, in order, or of all together. Errors are those of Gradients and Interpret.
absl::StatusOr<std::vector<GradientComparison>> CompareGradients(
    const Graph& graph, const std::vector<Tensor>& inputs,
    const GradientCheckOptions& options = {});

// Ok if all agree; kInternal says which does not, and by how much.
absl::Status CheckGradients(const Graph& graph, const std::vector<Tensor>& inputs,
                            const GradientCheckOptions& options = {});

// `graph` with one output, the sum described above; its weights are inputs behind the graph's own,
// which are added to `inputs`.
absl::StatusOr<Graph> WithScalarLoss(const Graph& graph, std::vector<Tensor>& inputs,
                                     uint64_t seed);

// `graph` with all its floats as f64, and so `inputs`. With `parameters`, constants of several
// floats become inputs behind the graph's own, and their values are added to `inputs`.
absl::StatusOr<Graph> InF64(const Graph& graph, std::vector<Tensor>& inputs,
                            bool parameters = false);

}  // namespace kiln

#endif  // KILN_GRAPH_REFERENCE_GRADIENT_CHECK_H_
