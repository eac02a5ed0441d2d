// SPDX-License-Identifier: Apache-2.0
#include "exec/library/post_op_rows.h"

#include <algorithm>
#include <iterator>

#include "exec/library/activation_steps.h"

namespace kiln::library {
namespace {

template <typename Step>
[[gnu::always_inline]] inline void Loop(float* x, const float* y, int64_t step, int64_t n,
                                        const float* c) {
  const float numbers[2] = {c[0], c[1]};  // which x does not overlap
  if (step == 0) {
    const float same = *y;
    for (int64_t i = 0; i < n; ++i) x[i] = Step::Apply(x[i], same, numbers);
  } else {
    for (int64_t i = 0; i < n; ++i) x[i] = Step::Apply(x[i], y[i], numbers);
  }
}

template <typename Step>
void Plain(float* x, const float* y, int64_t step, int64_t n, const float* c) {
  Loop<Step>(x, y, step, n, c);
}

#if defined(__x86_64__)
template <typename Step>
[[gnu::target("avx2,fma")]] void Avx2(float* x, const float* y, int64_t step, int64_t n,
                                      const float* c) {
  Loop<Step>(x, y, step, n, c);
}
template <typename Step>
[[gnu::target("avx512f,fma")]] void Avx512(float* x, const float* y, int64_t step, int64_t n,
                                           const float* c) {
  Loop<Step>(x, y, step, n, c);
}
// Null where the processor has neither.
template <typename Step>
PostOpRow Wide() {
  if (__builtin_cpu_supports("fma") == 0) return nullptr;
  if (__builtin_cpu_supports("avx512f") != 0) return Avx512<Step>;
  return __builtin_cpu_supports("avx2") != 0 ? Avx2<Step> : nullptr;
}
#else
template <typename Step>
PostOpRow Wide() {
  return nullptr;
}
#endif

template <typename Step>
PostOpRow Of() {
  const PostOpRow wide = Wide<Step>();
  return wide != nullptr ? wide : Plain<Step>;
}

template <PostOpRow (*find)(), typename Step>
PostOpRow Either() {
  const PostOpRow row = find();
  return row != nullptr ? row : Wide<Step>();
}

struct Named {
  const char* name;
  PostOpRow (*of)();
};
constexpr Named kRows[] = {
    {"add", Of<AddStep>},
    {"clip", Of<ClipStep>},
    {"elu", Wide<EluStep>},
    {"gelu_erf", Wide<GeluErfStep>},
    {"gelu_tanh", Wide<GeluTanhStep>},
    {"hard_sigmoid", Of<HardSigmoidStep>},
    {"hard_swish", Of<HardSwishStep>},
    {"leaky_relu", Of<LeakyReluStep>},
    {"linear", Of<LinearStep>},
    {"mul", Of<MulStep>},
    {"relu", Of<ReluStep>},
    {"sigmoid", Either<FindSigmoidRow, SigmoidStep>},
    {"swish", Either<FindSwishRow, SwishStep>},
    {"tanh", Wide<TanhStep>},
};

}  // namespace

PostOpRow FindPostOpRow(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows),
                                         [&](const Named& row) { return name == row.name; });
  return found == std::end(kRows) ? nullptr : found->of();
}

}  // namespace kiln::library
