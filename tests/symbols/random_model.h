// SPDX-License-Identifier: Apache-2.0
// Random models whose slices, pads, reshapes, resizes and the like take bounds computed from the
// shapes of the inputs, as branches take conditions and loops take counts. Every node is evaluated
// by the second evaluator as it is added, at all sizes, and kept only if most of them have a
// result.
#ifndef KILN_TESTS_SYMBOLS_RANDOM_MODEL_H_
#define KILN_TESTS_SYMBOLS_RANDOM_MODEL_H_

#include <cstdint>
#include <vector>

#include "tests/symbols/evaluate.h"
#include "tests/symbols/model.h"

namespace kiln::symbols {

inline constexpr size_t kSizes = 5;

struct RandomModel {
  Model model;
  std::vector<Ints> shapes[kSizes];             // of the inputs, for each size
  std::map<std::string, Array> inputs[kSizes];  // their elements
  Evaluated expected[kSizes];
  bool rounded = false;  // some results are near the evaluator's, not equal to them
};

// The same for the same seed, on every machine. `text`: only what graph text can say.
RandomModel MakeRandomModel(uint64_t seed, bool text);

}  // namespace kiln::symbols

#endif  // KILN_TESTS_SYMBOLS_RANDOM_MODEL_H_
