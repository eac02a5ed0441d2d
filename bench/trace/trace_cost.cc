// SPDX-License-Identifier: Apache-2.0
// What a trace costs beside its run, in microseconds: minimum and median of single calls.
//
//   chrt -f 10 taskset -c 0 kiln-bench-trace
//
// A function of 64 operations on 4 elements. "run" is the context of the same graph by itself, and
// the first calls are those of new functions with no cache, on 1000 elements.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "kiln/compile.h"
#include "kiln/graph.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

Array Chain(const Array& a, const Array& b) {
  Array r = a;
  for (int i = 0; i < 32; ++i) r = r * b + a;
  return r;
}

// 18 operations of 15 forms, four times.
Array Mixed(const Array& a, const Array& b) {
  Array r = a;
  for (int i = 0; i < 4; ++i) {
    r = max(tanh(r * b) + sigmoid(r), min(r, b)) - exp(-abs(r));
    r = where(r > 0.0f, sqrt(abs(r)), softsign(r)) / (abs(r) + 1.0f);
  }
  return r;
}

template <typename F>
void Report(const char* what, int count, F call) {
  std::vector<double> us;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point begin = Clock::now();
    call();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(us.begin(), us.end());
  std::printf("%-44s %9.2f %9.2f\n", what, us[0], us[us.size() / 2]);
}

absl::Status Run() {
  TraceOptions options;
  options.compile.threads = 1;
  options.compile.compile_mode = CompileMode::kBlock;
  absl::Status status = SetLazyOptions(options.compile);
  Array a = Array::full({4}, 0.5), b = Array::full({4}, 0.25);
  std::printf("%-44s %9s %9s\n", "us", "min", "median");

  GraphBuilder builder("chain");
  const ValueId x = builder.Input("a", DType::kF32, {4}), y = builder.Input("b", DType::kF32, {4});
  ValueId r = x;
  for (int i = 0; i < 32; ++i) r = builder.Op("add", {builder.Op("mul", {r, y}), x});
  builder.Output(r, "r");
  absl::StatusOr<Model> model = Compile(std::move(builder), options.compile);
  if (!model.ok()) return model.status();
  Context context = model->NewContext();
  status.Update(context.Bind(0, *a.tensor()));
  status.Update(context.Bind(1, *b.tensor()));
  Report("run", 20000, [&] { status.Update(context.Run()); });

  auto traced = trace(Chain, options);
  auto frozen = freeze(Chain, options);
  for (int i = 0; i < 3; ++i) {
    status.Update(traced(a, b).status());
    status.Update(frozen(a, b).status());
  }
  Report("replay of 64 operations, with its run", 20000, [&] { traced(a, b); });
  Report("frozen call, with its run", 20000, [&] { frozen(a, b); });
  status.Update(traced.status());
  status.Update(frozen.status());
  Array lazy;
  std::vector<double> us;
  for (int i = 0; i < 20000; ++i) {
    const Clock::time_point begin = Clock::now();
    lazy = Chain(a, b);
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    status.Update(lazy.eval());
  }
  std::sort(us.begin(), us.end());
  std::printf("%-44s %9.2f %9.2f\n", "lazy: 64 operations recorded", us[0], us[us.size() / 2]);

  int64_t rows = 0;
  Report("x({i}).item() of an array that is there", 1000,
         [&] { status.Update(b({rows++ % 4}).item<float>().status()); });
  Report("lazy: one operation of a new structure", 200,
         [&] { status.Update((Array::full({++rows}, 0.5) + 1.0f).eval()); });

  a = Array::full({1000}, 0.5);
  b = Array::full({1000}, 0.25);
  options.compile.cache.enabled = false;
  Report("first call, 64 operations of 3 forms", 200,
         [&] { status.Update(trace(Chain, options)(a, b).status()); });
  Report("first call, 72 operations of 15 forms", 200,
         [&] { status.Update(trace(Mixed, options)(a, b).status()); });
  return status;
}

}  // namespace
}  // namespace kiln

int main() {
  const absl::Status status = kiln::Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
