// SPDX-License-Identifier: Apache-2.0
// Work: what the operations of an expression cost on a machine, in vector code and with enough
// independent elements to keep its units busy; and how long one waits for the one before.
//
// Functions cost what their expansions (kernel/math.h) are made of. Example: with add_ns = 0.01,
// an f32 addition is Work{.ns = 0.01}, one of f64 twice that, and exp about 20 times.
#ifndef KILN_SCHEDULE_WORK_H_
#define KILN_SCHEDULE_WORK_H_

#include <algorithm>
#include <vector>

#include "kernel/kernel.h"
#include "schedule/machine.h"

namespace kiln {

// Of one element. Divisions and roots have a unit of their own, which works beside the others.
struct Work {
  double ns = 0, divider_ns = 0;
  void Add(const Work& more, double times) {
    ns += times * more.ns;
    divider_ns += times * more.divider_ns;
  }
};
Work WorkOf(const ScalarExpr& expr, const ExprNode& node, const Machine& machine);

// In additions: instructions of a vector, and the longest path through them.
struct Chain {
  double instructions = 0, depth = 0;
};
Chain ChainOf(const ScalarExpr& expr, const ExprNode& node);

// Divisions, roots and functions: not worth computing twice.
bool IsExpensive(ScalarOp op);

// What combining two elements of a reduction takes.
double CombineNs(const Stage& reduction, const Machine& machine);

// The part of the shorter of two that does not hide behind the longer.
inline constexpr double kNotHidden = 0.25;  // speed
inline double Overlapped(double a, double b) {
  return std::max(a, b) + kNotHidden * std::min(a, b);
}

}  // namespace kiln

#endif  // KILN_SCHEDULE_WORK_H_
