// SPDX-License-Identifier: Apache-2.0
// GradientCheck: gradients against differences of the function itself, in the float64 interpreter.
//
// The function is the sum of all float outputs, each element times a number of its own, so that
// every element of a Jacobian is seen. It is differentiated along single elements of small inputs,
// and along random directions of large ones, by the stencil
//   f'(0) = (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h,
// whose error is of the order of h^4. A graph whose floats are f64 has no rounding to speak of.
#ifndef KILN_TESTS_GRADIENT_GRADIENT_CHECK_H_
#define KILN_TESTS_GRADIENT_GRADIENT_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

struct GradientCheckOptions {
  double relative = 1e-6, absolute = 1e-8;
  double step = 1e-3;
  int64_t most_elements = 24;  // of an input, each by itself; of larger ones, `directions`
  int directions = 3;
  uint64_t seed = 1;
};

// Ok if all gradients of all float inputs agree; kInternal says which does not, and by how much. A
// kink that the stencil steps over shows as a difference, too: a shorter step tells.
absl::Status CheckGradients(const Graph& graph, const std::vector<Tensor>& inputs,
                            const GradientCheckOptions& options = {});

// `graph` with one output, the sum described above; its weights are inputs behind the graph's own,
// which are added to `inputs`.
absl::StatusOr<Graph> WithScalarLoss(const Graph& graph, std::vector<Tensor>& inputs,
                                     uint64_t seed);

// `graph` with all its f32 as f64.
absl::StatusOr<Graph> InF64(const Graph& graph);

// Numbers between `lo` and `hi`, no two closer than a few steps of the stencil, none as close to a
// multiple of 1/2, where kinks are. `slots` is how many are drawn in all.
class DistinctNumbers {
 public:
  DistinctNumbers(double lo, double hi, int64_t slots, uint64_t seed);
  double Next();

 private:
  std::vector<double> numbers_;
};

}  // namespace kiln

#endif  // KILN_TESTS_GRADIENT_GRADIENT_CHECK_H_
