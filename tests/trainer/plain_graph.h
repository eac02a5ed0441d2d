// SPDX-License-Identifier: Apache-2.0
// A network of plain loops (plain_network.h) as a graph.
#ifndef KILN_TESTS_TRAINER_PLAIN_GRAPH_H_
#define KILN_TESTS_TRAINER_PLAIN_GRAPH_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kiln/graph.h"
#include "tests/graph/tensors.h"
#include "tests/trainer/plain_network.h"

namespace kiln::training {

// Input x [n, widths[0]], output y.
inline GraphBuilder GraphOf(const PlainNetwork& net) {
  GraphBuilder b("net");
  ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), static_cast<int64_t>(net.widths[0])});
  for (size_t l = 0; l < net.layers(); ++l) {
    const auto in = static_cast<int64_t>(net.widths[l]);
    const auto out = static_cast<int64_t>(net.widths[l + 1]);
    const ValueId w = b.Constant(F32({in, out}, net.weights[l]), absl::StrCat("w", l));
    const ValueId bias = b.Constant(F32({out}, net.biases[l]), absl::StrCat("b", l));
    x = b.Op("add", {b.Op("matmul", {x, w}), bias});
    if (!net.activations[l].empty()) x = b.Op(net.activations[l], {x});
  }
  b.Output(x, "y");
  return b;
}

}  // namespace kiln::training

#endif  // KILN_TESTS_TRAINER_PLAIN_GRAPH_H_
