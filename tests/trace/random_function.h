// SPDX-License-Identifier: Apache-2.0
// Random functions of arrays, and two ways to run one: as operations of kiln::Array, and eagerly,
// each operation alone as a graph of one node. The judge of traces is the second.
#ifndef KILN_TESTS_TRACE_RANDOM_FUNCTION_H_
#define KILN_TESTS_TRACE_RANDOM_FUNCTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/model.h"
#include "kiln/trace.h"

namespace kiln {

// One step: an operator on earlier values (negative: a number).
struct RandomStep {
  std::string op = {};
  std::vector<int> operands = {};  // values; -1 is `number`
  double number = 0;
  Attrs attrs = {};
  bool reads = false;    // the host looks at the result
  bool forgets = false;  // nobody holds operand 0 afterwards
};

struct RandomFunction {
  std::vector<std::vector<int64_t>> inputs;  // shapes, of f32
  std::vector<RandomStep> steps;             // step k gives value inputs.size() + k
  std::vector<int> results;
  std::string ToString() const;
};

RandomFunction MakeRandomFunction(uint64_t seed, int steps);
std::vector<Tensor> RandomInputs(const RandomFunction& function, std::mt19937_64& random);

// The function on arrays: what `results` give.
std::vector<Array> Compute(const RandomFunction& function, const std::vector<Array>& inputs);

// One operation at a time, each a model of its own that runs on the VM; models are kept.
class EagerRunner {
 public:
  absl::StatusOr<std::vector<Tensor>> Run(const RandomFunction& function,
                                          const std::vector<Tensor>& inputs);

 private:
  absl::StatusOr<Tensor> RunStep(const RandomStep& step, const std::vector<Tensor>& values);
  std::map<std::string, std::unique_ptr<Model>> models_;
};

// Bit by bit; NaN equals NaN.
bool SameBits(const Tensor& a, const Tensor& b);

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_RANDOM_FUNCTION_H_
