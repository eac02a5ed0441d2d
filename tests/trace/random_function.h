// SPDX-License-Identifier: Apache-2.0
// Random functions of arrays, and two ways to run one: as operations of kiln::Array, and eagerly,
// each operation alone as a graph of one node. The judge of traces is the second, which is judged
// itself, operation by operation, by the interpreter.
#ifndef KILN_TESTS_TRACE_RANDOM_FUNCTION_H_
#define KILN_TESTS_TRACE_RANDOM_FUNCTION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "kiln/trace.h"
#include "tests/compiler/on_vm.h"

namespace kiln {

// One step: an operator on earlier values (negative: a number).
struct RandomStep {
  std::string op = {};
  std::vector<int> operands = {};  // values; -1 is `number`
  double number = 0;
  Attrs attrs = {};
  int64_t less = 0;      // of a slice: its end, from that of the axis
  bool reads = false;    // the host looks at the result
  bool forgets = false;  // nobody holds operand 0 afterwards
};

using Shapes = std::vector<std::vector<int64_t>>;

struct RandomFunction {
  Shapes inputs;                  // of f32
  std::vector<Shapes> variants;   // other shapes of the inputs that the function is right for
  std::vector<RandomStep> steps;  // step k gives value inputs.size() + k
  std::vector<int> results;
  std::string ToString() const;
};

struct RandomFunctionOptions {
  int steps = 10;
  int64_t inputs = 0;  // 0: one to three
  // Extents of the widest input: of `inputs`, and of each of `variants`. Empty: at random.
  Shapes extents = {};
};

RandomFunction MakeRandomFunction(uint64_t seed, const RandomFunctionOptions& options);
std::vector<Tensor> RandomInputs(const RandomFunction& function, std::mt19937_64& random);
std::vector<Tensor> RandomTensors(const Shapes& shapes, std::mt19937_64& random);

// What the host does before step k, and, as k = steps.size(), after the last one. The result of
// step k - 1 is the last value.
using StepHook = std::function<void(size_t k, std::vector<Array>& values)>;

// The function on arrays: what `results` give.
std::vector<Array> Compute(const RandomFunction& function, const std::vector<Array>& inputs,
                           const StepHook& hook = nullptr);

// One operation at a time, each a model of its own that runs on the VM; models are kept. kInternal:
// the interpreter gives another result.
class EagerRunner {
 public:
  absl::StatusOr<std::vector<Tensor>> Run(const RandomFunction& function,
                                          const std::vector<Tensor>& inputs);
  // Inputs, and what each step gives.
  absl::StatusOr<std::vector<Tensor>> RunAll(const RandomFunction& function,
                                             const std::vector<Tensor>& inputs);

 private:
  absl::StatusOr<Tensor> RunStep(const RandomStep& step, const std::vector<Tensor>& values);
  std::map<std::string, std::unique_ptr<Model>> models_;
};

// Bit by bit; NaN equals NaN.
bool SameBits(const Tensor& a, const Tensor& b);

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_RANDOM_FUNCTION_H_
