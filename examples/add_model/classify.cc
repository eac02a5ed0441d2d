// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include "softmax.h"

// Runs the model on ones, and prints an element. x is f32 [n, 64]: elements of another type, or
// another number of extents, do not compile.
int main() {
  try {
    const softmax::Model model = softmax::Model::Load(SOFTMAX_PACKAGE);
    const std::vector<float> x(2 * 64, 1.0f), mask(64, 0.0f);
    softmax::Inputs inputs;
    inputs.x = {x.data(), {2, 64}};
    inputs.mask = {mask.data(), {64}};
    const softmax::Outputs outputs = model.Run(inputs);
    std::printf("%g\n", static_cast<double>(outputs.y[0]));
  } catch (const kiln::cpp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
