// SPDX-License-Identifier: Apache-2.0
// The programs of random sessions, from all generators of programs that there are, as a file and
// with inputs of several shapes and values.
//
//   std::optional<SessionProgram> program = MakeSessionProgram(7, draw);
//   // kind "state", graph text, ".graph", inputs {x [3, 4], h [3, 4]}, {x [8, 4], h [8, 4]}, ...
#ifndef KILN_TESTS_COMPILER_SESSION_PROGRAMS_H_
#define KILN_TESTS_COMPILER_SESSION_PROGRAMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "graph/graph.h"
#include "tests/compiler/draw.h"

namespace kiln {

struct SessionProgram {
  std::string kind;            // its generator's name for it; "symbols": an ONNX model
  std::optional<Graph> graph;  // nothing for an ONNX model
  std::string text, ending;    // the model file, and what its name ends in
  // In the order of the model's inputs; dense. Some may be refused by the model.
  std::vector<std::vector<Tensor>> input_sets;
};

// Nothing: the generator has no program for this seed.
std::optional<SessionProgram> MakeSessionProgram(uint64_t seed, Draw& draw);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_SESSION_PROGRAMS_H_
