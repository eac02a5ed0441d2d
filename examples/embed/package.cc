// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include "kiln/model.h"

// Runs a package of examples/masked_softmax.graph in memory of its own; returns an element of y.
absl::StatusOr<float> Run(const char* package) {
  absl::StatusOr<kiln::Model> model = kiln::LoadPackage(package);
  if (!model.ok()) return model.status();
  std::vector<float> x(2 * 64, 1.0f), mask(64, 0.0f), y(2 * 64);
  kiln::Context context = model->NewContext();
  absl::Status status = context.Bind("x", kiln::Tensor::View(x.data(), kiln::DType::kF32, {2, 64}));
  status.Update(context.Bind("mask", kiln::Tensor::View(mask.data(), kiln::DType::kF32, {64})));
  status.Update(context.BindOutput("y", kiln::Tensor::View(y.data(), kiln::DType::kF32, {2, 64})));
  status.Update(context.Run());  // Update keeps the first error
  if (!status.ok()) return status;
  return y[0];
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: package PACKAGE\n");
    return 2;
  }
  const absl::StatusOr<float> first = Run(argv[1]);
  if (!first.ok()) {
    std::fprintf(stderr, "%s\n", std::string(first.status().message()).c_str());
    return 1;
  }
  std::printf("%g\n", *first);
  return 0;
}
