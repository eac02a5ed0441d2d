// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/trace/programs.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"

namespace kiln::bench {
namespace {

Array SaxpyChain(const Array& x, const Array& y) {
  Array r = y;
  for (int k = 0; k < 8; ++k) r = r * 0.9f + x * (0.1f * static_cast<float>(k + 1));
  return r;
}

Array Polynomial(const Array& x) {
  Array y = x * 0.0f + 1.0f;
  for (int k = 0; k < 15; ++k) y = y * x + (0.5f - 0.0625f * static_cast<float>(k));
  return y;
}

Array SoftmaxRows(const Array& x) {
  const Array e = exp(x - reduce_max(x, {.axes = {1}}));
  return e / reduce_sum(e, {.axes = {1}});
}

Array NormalCdf(const Array& d) {
  return 0.5f * (1.0f + tanh(0.7978845608f * (d + 0.044715f * d * d * d)));
}

Array BlackScholes(const Array& spot, const Array& strike, const Array& years) {
  const Array deviation = 0.3f * sqrt(years);
  const Array d = (log(spot / strike) + (0.02f + 0.045f) * years) / deviation;
  return spot * NormalCdf(d) - strike * exp(-0.02f * years) * NormalCdf(d - deviation);
}

Array MandelbrotSteps(const Array& re, const Array& im) {
  Array x = re, y = im, steps = re * 0.0f;
  for (int k = 0; k < 16; ++k) {
    const Array xx = x * x, yy = y * y;
    const Array inside = xx + yy < 4.0f;
    y = where(inside, 2.0f * x * y + im, y);
    x = where(inside, xx - yy + re, x);
    steps = steps + cast(inside, {.to = DType::kF32});
  }
  return steps;
}

Array NormaliseRows(const Array& x) {
  const Array centred = x - reduce_mean(x, {.axes = {1}});
  return centred / sqrt(reduce_mean(centred * centred, {.axes = {1}}) + 1e-5f);
}

Array KmeansDistances(const Array& points, const Array& centres) {
  const Array difference = unsqueeze(points, {.axes = {1}}) - unsqueeze(centres, {.axes = {0}});
  return reduce_min(reduce_sum(difference * difference, {.axes = {2}, .keepdims = 0}),
                    {.axes = {1}, .keepdims = 0});
}

Array HeatStep(const Array& u) {
  const Slice inner{1, -1}, after{2}, before{0, -2};
  const Array middle = u({inner, inner});
  return middle + 0.1f * (u({after, inner}) + u({before, inner}) + u({inner, after}) +
                          u({inner, before}) - 4.0f * middle);
}

Array SumOfSquares(const Array& x, const Array& y) {
  const Array difference = x - y;
  return reduce_sum(difference * difference, {.keepdims = 0});
}

Array LogisticGradient(const Array& samples, const Array& labels, const Array& weights) {
  const Array error = 1.0f / (1.0f + exp(-matmul(samples, weights))) - labels;
  return matmul(error, samples) * (1.0f / static_cast<float>(samples.extents()[0]));
}

// A traced function with its arguments, and what the last call gave.
template <typename F, size_t... K>
Prepared Traced(F function, const TraceOptions& options, const std::vector<Tensor>& inputs,
                std::index_sequence<K...> /*arguments*/) {
  struct State {
    decltype(trace(function)) traced;
    std::vector<Array> arguments;
    Array result;
  };
  auto state = std::make_shared<State>(State{trace(function, options), {}, {}});
  for (const Tensor& tensor : inputs) state->arguments.push_back(Array::of(tensor));
  return {[state] {
            state->result = Array();  // as in the peers' loops: nobody has the last result
            state->result = state->traced(state->arguments[K]...);
            return state->result.status();
          },
          [state] { return state->result.tensor(); }};
}

}  // namespace

absl::StatusOr<Prepared> PrepareKiln(const std::string& name, const std::vector<Tensor>& inputs,
                                     int threads) {
  TraceOptions options;
  options.name = name;
  options.compile.threads = threads;
  options.compile.compile_mode = CompileMode::kBlock;
  const auto one = [&](auto* f) {
    return Traced(f, options, inputs,
                  std::make_index_sequence<tracing::SignatureOf<decltype(f)>::kArguments>());
  };
  const std::map<std::string, std::function<Prepared()>> programs = {
      {"saxpy_chain", [&] { return one(SaxpyChain); }},
      {"polynomial", [&] { return one(Polynomial); }},
      {"softmax_rows", [&] { return one(SoftmaxRows); }},
      {"black_scholes", [&] { return one(BlackScholes); }},
      {"mandelbrot_steps", [&] { return one(MandelbrotSteps); }},
      {"normalise_rows", [&] { return one(NormaliseRows); }},
      {"kmeans_distances", [&] { return one(KmeansDistances); }},
      {"heat_step", [&] { return one(HeatStep); }},
      {"sum_of_squares", [&] { return one(SumOfSquares); }},
      {"logistic_gradient", [&] { return one(LogisticGradient); }}};
  const auto found = programs.find(name);
  if (found == programs.end()) return absl::NotFoundError(absl::StrCat("program \"", name, "\""));
  return found->second();
}

}  // namespace kiln::bench
