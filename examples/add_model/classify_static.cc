// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include "softmax_inside.h"

// As classify.cc; the package is in the program.
int main() {
  try {
    const softmax_inside::Model model = softmax_inside::Model::LoadEmbedded();
    const std::vector<float> x(2 * 64, 1.0f), mask(64, 0.0f);
    softmax_inside::Inputs inputs;
    inputs.x = {x.data(), {2, 64}};
    inputs.mask = {mask.data(), {64}};
    const softmax_inside::Outputs outputs = model.Run(inputs);
    std::printf("%g\n", static_cast<double>(outputs.y[0]));
  } catch (const kiln::cpp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
