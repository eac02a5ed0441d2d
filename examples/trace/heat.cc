// SPDX-License-Identifier: Apache-2.0
// The heat equation on a rod, step by step, as a trace: the first step records, the others run one
// compiled kernel each. Without sources and with insulated ends the heat of the rod stays.
//
//   heat [STEPS]
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "kiln/trace.h"
#include "kiln/trace_ops.h"

namespace {

using kiln::Array;
using kiln::Slice;

// u + rate * (left - 2 u + right), where beyond the ends lies what lies at them.
Array Step(const Array& u, const Array& rate) {
  const Array left = kiln::concat({u({Slice{0, 1}}), u({Slice{0, -1}})}, {.axis = 0});
  const Array right = kiln::concat({u({Slice{1}}), u({Slice{-1}})}, {.axis = 0});
  return u + rate * (left - 2.0f * u + right);
}

absl::Status Run(int steps) {
  std::vector<float> hot(1024, 0.0f);
  for (size_t i = 400; i < 600; ++i) hot[i] = 100;
  Array u = Array::from(hot);
  const Array rate = Array::from(std::vector<float>{0.25f});
  auto step = kiln::trace(Step);
  for (int i = 0; i < steps; ++i) u = step(u, rate);
  const absl::StatusOr<float> heat = kiln::reduce_sum(u, {.keepdims = 0}).item<float>();
  const absl::StatusOr<float> most = kiln::reduce_max(u, {.keepdims = 0}).item<float>();
  if (!heat.ok()) return heat.status();
  if (!most.ok()) return most.status();
  std::cout << steps << " steps: heat " << *heat << " (20000 at first), hottest " << *most << ", "
            << step.stats().replays << " replays of " << step.stats().operations << " operations\n";
  return std::abs(*heat - 20000) < 20 ? absl::OkStatus()
                                      : absl::InternalError("the heat has not stayed");
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? std::atoi(argv[1]) : 1000);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
