// SPDX-License-Identifier: Apache-2.0
// call_overhead GRAPH CACHE: processor time of a call with two small arrays in C++, in us: of
// Model::Run, and of a context that binds both inputs and its output anew. call_overhead.py
// compares.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "kiln/compile.h"

namespace {

double Seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename F>
double BestMicroseconds(const F& call) {
  constexpr int kCalls = 2000, kRounds = 60;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = Seconds();
    for (int k = 0; k < kCalls; ++k) {
      if (!call()) return -1;
    }
    best = std::min(best, (Seconds() - begin) / kCalls * 1e6);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  kiln::CompileOptions options;
  options.threads = 1;
  options.output_memory = kiln::OutputMemory::kFresh;
  options.cache.directory = argv[2];
  absl::StatusOr<kiln::Model> model = kiln::Compile(argv[1], options);
  if (!model.ok()) return 1;
  std::vector<float> x(64, 1.0f), mask(64, 0.0f), y(64);
  using kiln::DType;
  using kiln::Tensor;
  const double run = BestMicroseconds([&] {
    const Tensor a = Tensor::View(x.data(), DType::kF32, {1, 64});
    const Tensor b = Tensor::View(mask.data(), DType::kF32, {64});
    return model->Run({{"x", a}, {"mask", b}}).ok();
  });
  kiln::Context context = model->NewContext();
  const double bound = BestMicroseconds([&] {
    return context.Bind("x", Tensor::View(x.data(), DType::kF32, {1, 64})).ok() &&
           context.Bind("mask", Tensor::View(mask.data(), DType::kF32, {64})).ok() &&
           context.BindOutput("y", Tensor::View(y.data(), DType::kF32, {1, 64})).ok() &&
           context.Run().ok();
  });
  std::printf("%f %f\n", run, bound);
  return 0;
}
