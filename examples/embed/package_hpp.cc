// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include "kiln/kiln.hpp"

// As package.cc, in C++17 and without Abseil.
int main(int, char** argv) {
  try {
    const kiln::cpp::Model model = kiln::cpp::LoadPackage(argv[1]);
    std::vector<float> x(2 * 64, 1.0f), mask(64, 0.0f), y(2 * 64);
    kiln::cpp::Context context(model);
    context.Bind(0, kiln::cpp::Tensor::View(x.data(), KILN_F32, {2, 64}));
    context.Bind(1, kiln::cpp::Tensor::View(mask.data(), KILN_F32, {64}));
    context.BindOutput(0, kiln::cpp::Tensor::View(y.data(), KILN_F32, {2, 64}));
    context.Run();
    std::printf("%g\n", y[0]);
  } catch (const kiln::cpp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
