// SPDX-License-Identifier: Apache-2.0
// One change of a model that keeps it well-formed as a message: an operand is left out, doubled or
// a sequence; an extent, element or attribute is extreme; a type is another; a constant is an
// input.
#ifndef KILN_TESTS_FUZZ_MUTATE_MODEL_H_
#define KILN_TESTS_FUZZ_MUTATE_MODEL_H_

#include "tests/fuzz/draw_model.h"

namespace kiln {

void Mutate(onnx::ModelProto& model, Random& random);

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_MUTATE_MODEL_H_
