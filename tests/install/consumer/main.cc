// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "kiln/base/cpu_features.h"
#include "kiln/base/npy.h"
#include "kiln/exec/library/library.h"
#include "kiln/exec/support/pool.h"

namespace {

// 2 * 4 by the library, on two threads.
float Product() {
  kiln::Pool pool(2);
  const kiln::library::Operand one{true, kiln::DType::kF32, {1, 1}, {1, 1}, nullptr};
  kiln::library::Request request;
  request.inputs = {one, one};
  request.outputs = {one};
  const auto session = kiln::library::Session::Create(&pool);
  const auto made = kiln::library::Make(*kiln::library::Find("matmul"), request, *session);
  float a = 2, b = 4, y = 0;
  alignas(64) static char scratch[1 << 16];
  void *inputs[] = {&a, &b}, *outputs[] = {&y};
  if (!made.ok() || (*made)->scratch_bytes() > static_cast<int64_t>(sizeof scratch)) return -1;
  return (*made)->Run({inputs, outputs, scratch, nullptr}).ok() ? y : -1;
}

}  // namespace

// Prints the level of this processor, the elements of a tensor that went through .npy bytes, and a
// product.
int main() {
  float values[2] = {1.5f, -2.0f};
  const auto back =
      kiln::ParseNpy(kiln::NpyBytes(kiln::Tensor::View(values, kiln::DType::kF32, {2})));
  if (!back.ok()) return 1;
  const auto* elements = static_cast<const float*>(back->data());
  std::printf("%s %g %g %g\n", std::string(Name(kiln::HostIsa())).c_str(), elements[0], elements[1],
              Product());
  return 0;
}
