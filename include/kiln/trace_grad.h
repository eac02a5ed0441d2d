// SPDX-License-Identifier: Apache-2.0
// Gradients of functions of arrays, in reverse mode.
//
//   Array Loss(const Array& w, const Array& x, const Array& y) {
//     const Array error = kiln::matmul(x, w) - y;
//     return kiln::reduce_mean(error * error, {.keepdims = 0});
//   }
//   auto step = kiln::trace([](const Array& w, const Array& x, const Array& y) {
//     const auto [loss, d_w] = kiln::value_and_grad(Loss)(w, x, y);
//     return std::array{loss, w - 0.1f * d_w};
//   });
//   const auto [d_w, d_y] = kiln::grad<0, 2>(Loss)(w, x, y);  // by arguments 0 and 2
//   const Array second = kiln::grad(kiln::grad(F))(x);        // of F's only argument
//
// The function takes any number of `const Array&`. It returns its value, a float of one element, or
// a std::array or std::vector whose first element that is; the others are auxiliary: they are given
// beside the value, and have no gradient.
//
// A call runs the function on placeholders for the arguments that it is differentiated by. Then
// what the results need is recorded, as if the program had called these operators: lazily, in a
// trace (where gradients cost what other operations do), or in a function that is differentiated
// itself. All else that the function uses is a constant, also an argument's array where the
// function has captured it. How a function is differentiated is kept by the thread and found again
// by its structure, for 256 structures. Kinks and ties: docs/gradients.md; stop_gradient(x) gives x
// and no gradient.
//
// Errors are carried by the results. kInvalidArgument: the value is no float of one element, or an
// argument is not of floats. kUnimplemented: an operator has no gradient. kFailedPrecondition: a
// value of the function is read in it, which has none yet; or a traced function is called in it; or
// in a trace it has a region left out (ExcludeFromTrace).
#ifndef KILN_TRACE_GRAD_H_
#define KILN_TRACE_GRAD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/status.h"
#include "kiln/trace.h"

namespace kiln {
namespace tracing {

class GradientRecorder;

// One call of a function that is differentiated by some of its arguments.
class KILN_API GradientCall {
 public:
  // `by`: which arguments, each once; they become what the function is called with, placeholders or
  // arrays with the error.
  GradientCall(Array* arguments, const size_t* by, size_t num_by, Location where) noexcept;
  ~GradientCall();
  GradientCall(const GradientCall&) = delete;
  GradientCall& operator=(const GradientCall&) = delete;
  // `values` are what it returned; they become values of the program around, where they are wanted,
  // and so do the `num_by` gradients.
  void Finish(Array* values, size_t count, bool wanted, Array* gradients) noexcept;

 private:
  std::vector<Array> by_;
  GradientRecorder* recorder_ = nullptr;
  absl::Status error_;
  size_t num_by_;
  Location where_;
};

template <size_t... by>
constexpr bool AllDiffer() {
  constexpr std::array<size_t, sizeof...(by)> all = {by...};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (all[i] == all[k]) return false;
  return true;
}

// What value_and_grad gives of a function that returns R, for n arguments.
template <typename R, size_t n>
struct ValuesAndGradients {
  using Type = std::vector<Array>;
};
template <size_t n>
struct ValuesAndGradients<Array, n> {
  using Type = std::array<Array, 1 + n>;
};
template <size_t m, size_t n>
struct ValuesAndGradients<std::array<Array, m>, n> {
  using Type = std::array<Array, m + n>;
};

template <typename>
using AnArray = Array;

template <typename F, typename Pointer, bool with_values, size_t... by>
class Gradient;
template <typename F, typename R, typename... A, bool with_values, size_t... by>
class Gradient<F, R (*)(A...), with_values, by...> {
  static constexpr size_t kBy = sizeof...(by);
  static_assert(((by < sizeof...(A)) && ...), "the function has no such argument");
  static_assert(AllDiffer<by...>(), "an argument is named twice");
  using Gradients = std::conditional_t<kBy == 1, Array, std::array<Array, kBy>>;
  using Result =
      std::conditional_t<with_values, typename ValuesAndGradients<R, kBy>::Type, Gradients>;

 public:
  Gradient(F function, Location where) : function_(std::move(function)), where_(where) {}

  Result operator()(const AnArray<A>&... arguments) {
    std::array<Array, sizeof...(A)> all_arguments = {arguments...};
    const size_t places[] = {by...};
    GradientCall call(all_arguments.data(), places, kBy, where_);
    R values = Run(all_arguments, std::index_sequence_for<A...>());
    std::array<Array, kBy> gradients;
    Array* const first = Results<R>::data(values);
    const size_t count = Results<R>::size(values);
    call.Finish(first, count, with_values, gradients.data());
    if constexpr (with_values) {
      Result all;
      if constexpr (std::is_same_v<Result, std::vector<Array>>) all.resize(count + kBy);
      std::move(first, first + count, all.begin());
      std::move(gradients.begin(), gradients.end(), all.end() - kBy);
      return all;
    } else if constexpr (kBy == 1) {
      return std::move(gradients[0]);
    } else {
      return gradients;
    }
  }

 private:
  template <size_t... k>
  R Run(const std::array<Array, sizeof...(A)>& arguments, std::index_sequence<k...>) {
    return function_(arguments[k]...);
  }
  F function_;
  Location where_;
};

template <bool with_values, size_t... by, typename F>
auto MakeGradient(F function, Location where) {
  using Pointer = typename SignatureOf<F>::Pointer;
  if constexpr (sizeof...(by) == 0)
    return Gradient<F, Pointer, with_values, 0>(std::move(function), where);
  else
    return Gradient<F, Pointer, with_values, by...>(std::move(function), where);
}

}  // namespace tracing

// A function of the same arguments that gives the gradient of `function` by argument `by`, of its
// type and shape; by several, a std::array of gradients. None named: by the first.
template <size_t... by, typename F>
auto grad(F function, Location where = Location::Here()) {
  return tracing::MakeGradient<false, by...>(std::move(function), where);
}

// One that gives, in one std::array (std::vector, where the function returns one), what `function`
// returns, and then the gradients.
template <size_t... by, typename F>
auto value_and_grad(F function, Location where = Location::Here()) {
  return tracing::MakeGradient<true, by...>(std::move(function), where);
}

}  // namespace kiln

#endif  // KILN_TRACE_GRAD_H_
