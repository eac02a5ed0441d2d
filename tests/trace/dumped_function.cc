// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/dumped_function.h"

#include "base/status_macros.h"

namespace kiln {
namespace {

template <typename Traced, typename... A>
absl::StatusOr<std::vector<Tensor>> CallAndDump(Traced traced, const std::string& file,
                                                const DumpOptions& options, const A&... arguments) {
  const std::vector<Array> results = traced(arguments...);
  KILN_RETURN_IF_ERROR(traced.status());
  KILN_RETURN_IF_ERROR(traced.dump(file, options).status());
  std::vector<Tensor> tensors;
  for (const Array& result : results) {
    KILN_ASSIGN_OR_RETURN(tensors.emplace_back(), result.tensor());
  }
  return tensors;
}

}  // namespace

RandomFunction RandomModel(uint64_t seed) {
  RandomFunction function = MakeRandomFunction(seed, {.steps = static_cast<int>(4 + seed % 30)});
  for (RandomStep& step : function.steps) step.reads = false;
  return function;
}

absl::StatusOr<std::vector<Tensor>> TraceAndDump(const RandomFunction& function,
                                                 const std::vector<Tensor>& inputs,
                                                 const std::string& file,
                                                 const DumpOptions& options) {
  TraceOptions trace_options;
  trace_options.capture_as_const = true;
  trace_options.compile = OnVm();
  std::vector<Array> x;
  for (const Tensor& input : inputs) x.push_back(Array::of(input));
  const auto& f = function;
  // The last argument is captured: a constant of the model.
  if (x.size() == 1) {
    return CallAndDump(trace([&](const Array& a) { return Compute(f, {a}); }, trace_options), file,
                       options, x[0]);
  }
  if (x.size() == 2) {
    return CallAndDump(trace(
                           [&](const Array& a) {
                             return Compute(f, {a, x[1]});
                           },
                           trace_options),
                       file, options, x[0]);
  }
  return CallAndDump(trace(
                         [&](const Array& a, const Array& b) {
                           return Compute(f, {a, b, x[2]});
                         },
                         trace_options),
                     file, options, x[0], x[1]);
}

}  // namespace kiln
