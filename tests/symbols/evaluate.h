// SPDX-License-Identifier: Apache-2.0
// The second evaluator: index and shape operators of ONNX as plain loops over concrete shapes,
// written from the operators' specification and, where that leaves a result open, from
// docs/numerics.md. It shares nothing with graph/ops, graph/reference or
// the importer.
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
};

struct Evaluated {
  Outcome outcome = Outcome::kValue;
  std::string why;
  std::vector<Array> arrays;
};

// `inputs`: null for an absent one.
Evaluated Evaluate(const ModelNode& node, const std::vector<const Array*>& inputs);

// The outputs of a model; `inputs` by name.
Evaluated Evaluate(const Model& model, const std::map<std::string, Array>& inputs);

}  // namespace kiln::symbols

#endif  // KILN_TESTS_SYMBOLS_EVALUATE_H_
