// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "kiln/base/cpu_features.h"
#include "kiln/base/npy.h"

// Prints the level of this processor and the elements of a tensor that went through .npy bytes.
int main() {
  float values[2] = {1.5f, -2.0f};
  const auto back =
      kiln::ParseNpy(kiln::NpyBytes(kiln::Tensor::View(values, kiln::DType::kF32, {2})));
  if (!back.ok()) return 1;
  const auto* elements = static_cast<const float*>(back->data());
  std::printf("%s %g %g\n", std::string(Name(kiln::HostIsa())).c_str(), elements[0], elements[1]);
  return 0;
}
