// SPDX-License-Identifier: Apache-2.0
// The second evaluator: index and shape operators of ONNX, products, pools, Resize and nodes with
// bodies, as plain loops over concrete shapes, written from the operators' specification and, where
// that leaves a result open, from docs/numerics.md. It shares nothing with graph/ops,
// graph/reference or the importer.
#ifndef KILN_TESTS_SYMBOLS_EVALUATE_H_
#define KILN_TESTS_SYMBOLS_EVALUATE_H_

#include <map>
#include <string>
#include <vector>

#include "tests/symbols/array.h"
#include "tests/symbols/model.h"

namespace kiln::symbols {

enum class Outcome {
  kValue,      // the arrays
  kError,      // the specification has no result: extents do not go together
  kUndefined,  // runtimes differ, Kiln does not: -1 beside an extent of 0
  kUnneeded,   // the arrays, or the error of a node that no output needs
  kTooLarge,   // more elements than a test has memory for: nobody is asked
  kOpen,       // a loop without iterations: what it stacks has no shape, and its body need not fit
};

struct Evaluated {
  Outcome outcome = Outcome::kValue;
  std::string why;
  std::vector<Array> arrays;
};

using Values = std::map<std::string, Array>;  // by name

// `inputs`: null for an absent one. `scope`: what bodies of the node may take from around it.
Evaluated Evaluate(const ModelNode& node, const std::vector<const Array*>& inputs,
                   const Values& scope);

// Whether a result of the node is near a runtime's, and not equal to it: it is rounded in other
// places. Other results are whole numbers.
bool IsRounded(const ModelNode& node);

// The outputs of a model, or of a body within `values`.
Evaluated Evaluate(const Model& model, const Values& values);

}  // namespace kiln::symbols

#endif  // KILN_TESTS_SYMBOLS_EVALUATE_H_
