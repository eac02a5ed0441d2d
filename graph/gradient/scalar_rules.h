// SPDX-License-Identifier: Apache-2.0
// Derivatives of the primitives of ScalarExpr: one table, from which those of all scalar records
// and of the maps of reductions follow.
//
//   y = mul(a, b)        the cotangent of a is g * b, that of b is g * a
//   y = max(a, b)        a choice: the operand that is chosen takes g, at a tie the second
//   y = floor(a)         nothing: 0 wherever it has a derivative
//
// The derivative of a choice is the derivative of what is chosen: the other branch, which may be
// infinite or NaN there, is selected away and not multiplied by 0.
#ifndef KILN_GRAPH_GRADIENT_SCALAR_RULES_H_
#define KILN_GRAPH_GRADIENT_SCALAR_RULES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/scalar_expr.h"

namespace kiln::gradient {

// What a rule sees of a node y = op(a, b, c), and y's cotangent g.
struct ScalarStep {
  Ex a, b, c, y, g;
};
using ScalarFormula = Ex (*)(const ScalarStep& s);

enum class ScalarRuleKind : uint8_t {
  kSmooth,  // operand k takes `cotangents[k]`
  kChoice,  // y is operand `yes` where `chosen` holds, else operand `no`
  kFlat,    // the derivative is 0 where there is one
  kNone,    // no function of real numbers: integers, bits, booleans, leaves
};

struct ScalarRule {
  ScalarOp op;
  ScalarRuleKind kind;
  ScalarFormula cotangents[3] = {};
  ScalarFormula chosen = nullptr;
  int8_t yes = 0, no = 0;
};

// The rule of `op`. Every primitive has one.
const ScalarRule& RuleOf(ScalarOp op);

// The cotangents of the inputs that `expr` reads (kRead, without an index), input k's at place k,
// in which the result's cotangent is `g`; nothing where there is none. Nodes are added to `expr`,
// whose root stays. `y`, if given, stands for the root's value, so that it need not be computed
// again.
std::vector<std::optional<Ex>> Reverse(ScalarExpr& expr, Ex g, std::optional<Ex> y,
                                       size_t num_inputs);

}  // namespace kiln::gradient

#endif  // KILN_GRAPH_GRADIENT_SCALAR_RULES_H_
