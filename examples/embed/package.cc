// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include "kiln/model.h"

// Runs a package of examples/masked_softmax.graph in memory of its own, and prints an element.
int main(int, char** argv) {
  const absl::StatusOr<kiln::Model> model = kiln::LoadPackage(argv[1]);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", std::string(model.status().message()).c_str());
    return 1;
  }
  std::vector<float> x(2 * 64, 1.0f), mask(64, 0.0f), y(2 * 64);
  kiln::Context context = kiln::Model(*model).NewContext();
  const absl::Status bound[] = {
      context.Bind("x", kiln::Tensor::View(x.data(), kiln::DType::kF32, {2, 64})),
      context.Bind("mask", kiln::Tensor::View(mask.data(), kiln::DType::kF32, {64})),
      context.BindOutput("y", kiln::Tensor::View(y.data(), kiln::DType::kF32, {2, 64})),
      context.Run(),
  };
  for (const absl::Status& status : bound) {
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      return 1;
    }
  }
  std::printf("%g\n", y[0]);
  return 0;
}
