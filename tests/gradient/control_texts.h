// SPDX-License-Identifier: Apache-2.0
// Graphs with branches and loops, of any float type.
#ifndef KILN_TESTS_GRADIENT_CONTROL_TEXTS_H_
#define KILN_TESTS_GRADIENT_CONTROL_TEXTS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace kiln {

// s * x * x where c, else exp(x).
inline std::string BranchesText(absl::string_view type) {
  return absl::StrReplaceAll(R"(graph g
input c : bool []
input x : TYPE [n, 2]
input s : TYPE []
body a
input x : TYPE [n, 2]
input s : TYPE []
y = mul(x, s)
z = mul(y, x)
output z
end
body b
input x : TYPE [n, 2]
input s : TYPE []
y = exp(x)
output y
end
r : TYPE [n, 2] = if(c, x, s) {else_branch = b, extents = [n, 2], then_branch = a}
output r
)",
                             {{"TYPE", type}});
}

// s = tanh(s * w) again and again, and the sums of all s. `trips` says what m is, `more` gives the
// condition.
inline std::string LoopText(absl::string_view type, absl::string_view trips,
                            absl::string_view more) {
  return absl::StrReplaceAll(R"(graph g
TRIPS
input s : TYPE [n]
input w : TYPE [n]
body b
input i : i64 []
input c : bool []
input s : TYPE [n]
input w : TYPE [n]
p = mul(s, w)
d = tanh(p)
t = reduce_sum(d) {keepdims = 0}
MORE
output d
output t
end
last, all = loop(m, _, s, w) {body = b, carried = 1, extents = [n, turns]}
output last
output all
)",
                             {{"TYPE", type}, {"TRIPS", trips}, {"MORE", more}});
}

// A condition that holds in the first two turns.
inline constexpr char kUntilTwo[] = "const two : i64 [] = 2\nmore = less(i, two)\noutput more";

}  // namespace kiln

#endif  // KILN_TESTS_GRADIENT_CONTROL_TEXTS_H_
