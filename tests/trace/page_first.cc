// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_ops.h"

kiln::Array Step(const kiln::Array& w, const kiln::Array& x, const kiln::Array& y) {
  const kiln::Array error = kiln::matmul(x, w) - y;
  return w - 0.1f * kiln::matmul(kiln::transpose(x), error);
}

int main() {
  const std::vector<float> points = {1, 0, 1, 1, 1, 2}, heights = {1, 3, 5};  // 1 + 2 x
  const kiln::Array x = kiln::Array::from(points.data(), {3, 2});
  const kiln::Array y = kiln::Array::from(heights.data(), {3, 1});
  kiln::Array w = kiln::Array::full({2, 1}, 0);
  auto step = kiln::trace(Step);
  for (int i = 0; i < 100; ++i) w = step(w, x, y);  // the first call records, the others replay
  const absl::StatusOr<std::vector<float>> values = w.to_vector<float>();
  if (!values.ok()) {
    std::cerr << values.status() << "\n";
    return 1;
  }
  std::cout << (*values)[0] << " + " << (*values)[1] << " x\n";
}
