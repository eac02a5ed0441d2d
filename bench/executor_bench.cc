// SPDX-License-Identifier: Apache-2.0
// What the executor itself costs: regions of the pool, runs of plans with nothing to do, small
// library calls.
//
//   build/release/bin/executor_bench [--benchmark_filter=...]
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "exec/library/library.h"
#include "exec/support/pool.h"
#include "kiln/model.h"
#include "tests/exec/fake_program.h"

namespace kiln {
namespace {

// A region in which every member has nothing to do; the second argument is the pause before it.
void Region(benchmark::State& state) {
  Pool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    if (state.range(1) > 0) {
      state.PauseTiming();
      usleep(static_cast<useconds_t>(state.range(1)));
      state.ResumeTiming();
    }
    pool.ParallelFor(state.range(0), [](int64_t, int64_t) { return 0; });
  }
}
BENCHMARK(Region)->Args({1, 0})->Args({2, 0})->Args({2, 3000})->UseRealTime();

int NothingFn(void**) { return 0; }
const FakeKernel kNothing = {"nothing", kNegate.text, NothingFn, {0, 0}};

// A plan of kernels that return at once.
void EmptyThunks(benchmark::State& state) {
  FakeProgram p;
  int from = p.Input("x", {"n"});
  for (int64_t i = 1; i < state.range(0); ++i) {
    const int to = p.Temporary({"n"});
    p.Kernel(kNothing, {from}, {to}, {"n"});
    from = to;
  }
  p.Kernel(kNothing, {from}, {p.Output("y", {"n"})}, {"n"});
  Model model = *Model::Create(p.Provider(), {static_cast<int>(state.range(1))});
  Context context = model.NewContext();
  if (!context.Bind("x", Values({1, 2, 3, 4})).ok()) state.SkipWithError("not bound");
  for (auto _ : state) {
    if (!context.Run().ok()) state.SkipWithError("failed");
  }
  state.counters["per_thunk"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(EmptyThunks)->Args({1, 1})->Args({100, 1})->Args({100, 2});

// x [n, n] times w [n, n] by the library.
void Matmul(benchmark::State& state) {
  const int64_t n = state.range(0);
  Pool pool(static_cast<int>(state.range(1)));
  const auto session = *library::Session::Create(&pool);
  const library::Operand operand{true, DType::kF32, {n, n}, {n, 1}, nullptr};
  library::Request request;
  request.inputs = {operand, operand};
  request.outputs = {operand};
  const auto primitive = *library::Make(*library::Find("matmul"), request, session);
  const Tensor x = Tensor::Allocate(DType::kF32, {n, n}), y = x.Clone(),
               scratch = Tensor::Allocate(DType::kU8, {primitive->scratch_bytes() + 64});
  std::memset(x.data(), 0, static_cast<size_t>(x.size_bytes()));
  void *inputs[] = {x.data(), x.data()}, *outputs[] = {y.data()};
  for (auto _ : state) {
    if (!primitive->Run({inputs, outputs, scratch.data(), nullptr}).ok())
      state.SkipWithError("failed");
  }
}
BENCHMARK(Matmul)
    ->Args({8, 1})
    ->Args({8, 2})
    ->Args({64, 1})
    ->Args({64, 2})
    ->Args({512, 1})
    ->Args({512, 2})
    ->UseRealTime();

}  // namespace
}  // namespace kiln

BENCHMARK_MAIN();
