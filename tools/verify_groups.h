// SPDX-License-Identifier: Apache-2.0
// kiln verify --per-group: every group of a model by itself against the float64 interpreter.
//
// The interpreter runs the graph after passes and hands every group its inputs, so that errors do
// not add up from group to group. A group is compiled as a graph of its own (graph_part.h);
// `same_kernel` says whether that gave the kernel that the model runs. Where a group differs, delta
// debugging finds a part of its nodes that still does and of which no node can be left out.
#ifndef KILN_TOOLS_VERIFY_GROUPS_H_
#define KILN_TOOLS_VERIFY_GROUPS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/compare.h"
#include "base/tensor.h"
#include "compiler/compile_graph.h"

namespace kiln {

// One output against what it should be.
struct OutputCheck {
  std::string name, type;
  Comparison comparison;
  double bound = 0;     // absolute; a relative one adds to it
  double of_bound = 0;  // the largest error as a part of what is allowed there; above 1: differs
};

// The outputs of a graph. Floats may be off by a part of their standard deviation and of their
// value, or by some units of the coarsest type of the graph.
std::vector<OutputCheck> CheckOutputs(const Graph& graph, const std::vector<Tensor>& got,
                                      const std::vector<Tensor>& want);
bool AllOk(const std::vector<OutputCheck>& outputs);

// How a graph runs: compiled, or, in tests, by something with a planted defect.
using RunFn = std::function<absl::StatusOr<std::vector<Tensor>>(const Graph& graph,
                                                                const std::vector<Tensor>& inputs)>;

struct GroupCheck {
  size_t group = 0;                // number in the list of `kiln inspect`
  std::string kind;                // kernel or library
  std::vector<std::string> nodes;  // "scaled (mul)"
  std::vector<OutputCheck> outputs;
  std::string refused;  // why it could not be compared by itself; else empty
  std::optional<bool> same_kernel;
  double of_bound = 0;  // the largest of its outputs
  bool ok() const { return refused.empty() && AllOk(outputs); }
};

// A part that differs, to look at.
struct Repro {
  size_t group = 0;
  std::vector<std::string> nodes;
  int tries = 0;  // parts that were run
  bool minimal = false;
  std::string text;                                    // .graph
  SymbolValues symbols;                                // of its inputs; empty where numbers do
  std::optional<uint64_t> seed;                        // of random inputs with which it differs
  std::vector<std::pair<std::string, Tensor>> inputs;  // where no seed that was tried does
  OutputCheck output;                                  // one that differs, with those inputs
};

struct GroupsCheck {
  std::vector<GroupCheck> groups;
  std::optional<size_t> worst;  // in groups: of those compared, that with the largest of_bound
  std::optional<Repro> repro;   // of the worst, where it differs
  std::string no_repro;         // why there is none though it does
};

// `compiled`: of one program, for `inputs` of its graph; `options` as it was compiled; `seed`: the
// first that is tried. Errors as Interpret.
absl::StatusOr<GroupsCheck> CheckGroups(const Compiled& compiled, const std::vector<Tensor>& inputs,
                                        const CompileOptions& options, const RunFn& run,
                                        uint64_t seed);

}  // namespace kiln

#endif  // KILN_TOOLS_VERIFY_GROUPS_H_
