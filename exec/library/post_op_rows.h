// SPDX-License-Identifier: Apache-2.0
// Post-ops of few operations: their formulas, and loops over rows in the widest registers that the
// processor has.
#ifndef KILN_EXEC_LIBRARY_POST_OP_ROWS_H_
#define KILN_EXEC_LIBRARY_POST_OP_ROWS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace kiln::library {

// Comparisons with NaN are false: it falls through.
constexpr float Clamp(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// x: the operator's result; y: the operand, if there is one; c: the numbers of the post-op.
struct AddStep {
  static constexpr float Apply(float x, float y, const float*) { return x + y; }
};
struct ClipStep {
  static constexpr float Apply(float x, float, const float* c) { return Clamp(x, c[0], c[1]); }
};
struct HardSigmoidStep {
  static constexpr float Apply(float x, float, const float* c) {
    return Clamp(x * c[0] + c[1], 0, 1);
  }
};
struct HardSwishStep {
  static constexpr float Apply(float x, float, const float*) {
    return x * Clamp(x * (1.0F / 6) + 0.5F, 0, 1);
  }
};
struct LeakyReluStep {
  static constexpr float Apply(float x, float, const float* c) { return x < 0 ? x * c[0] : x; }
};
struct LinearStep {
  static constexpr float Apply(float x, float, const float* c) { return x * c[0] + c[1]; }
};
struct MulStep {
  static constexpr float Apply(float x, float y, const float*) { return x * y; }
};
struct ReluStep {
  static constexpr float Apply(float x, float, const float*) { return x < 0 ? 0.0F : x; }
};

// x[i] = the step of x[i] and y[i * step], for 0 <= i < n; `step` is 0 or 1, `c` has two numbers; y
// has an element also where the step reads none.
using PostOpRow = void (*)(float* x, const float* y, int64_t step, int64_t n, const float* c);

// The loop of the post-op of that name for this processor: of one of the above, which gives the
// bits of Apply, or of an activation (activation_steps.h, logistic_rows.cc), whose bits do not
// depend on an element's place; null where there is none, as of activations without AVX2 and FMA.
PostOpRow FindPostOpRow(absl::string_view name);

// sigmoid(x) = 1 / (1 + exp(-x)) and swish(x) = x / (1 + exp(-c[0] x)), within 3 units of the last
// place, or 0 where the exponential is more than a float holds. An element's bits do not depend on
// its place. Null where the processor has no AVX-512.
PostOpRow FindSigmoidRow();
PostOpRow FindSwishRow();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_POST_OP_ROWS_H_
