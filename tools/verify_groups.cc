// SPDX-License-Identifier: Apache-2.0
#include "tools/verify_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fusion/lower.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "kernel/text.h"
#include "tools/graph_part.h"
#include "tools/inputs.h"
#include "tools/report.h"
#include "tools/smallest_part.h"

namespace kiln {
namespace {

// Floats may be off by this many standard deviations of the value: room for any order of summation,
// and far below what a wrong kernel does.
constexpr double kDeviations = 1e-3;
constexpr double kRelative = 1e-5;
// And by this many units of the coarsest type of the graph: every operator rounds to its type,
// which the interpreter does not.
constexpr double kUnits = 8;
// Parts that are run to find a small one: each may build a kernel.
constexpr int kMostTries = 300;
constexpr uint64_t kSeeds = 8;
// What the text of a graph holds of a constant (graph/text.h).
constexpr int64_t kMostConstantBytes = 64 << 10;

// The largest relative error of rounding to a float type of the graph.
double CoarsestUnit(const Graph& graph) {
  double unit = 0;
  for (const Value& value : graph.values()) {
    const double own = value.type == DType::kBF16  ? 0x1p-8
                       : value.type == DType::kF16 ? 0x1p-11
                                                   : 0x1p-24;
    unit = std::max(unit, own);
  }
  return unit;
}

// The largest error as a part of what is allowed.
double PartOfBound(const Tensor& got, const Tensor& want, const Comparison& comparison,
                   double relative, double bound) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!IsFloat(want.dtype()) || got.dtype() != want.dtype() || got.shape() != want.shape())
    return comparison.ok ? 0 : kInfinity;
  const Tensor a = Dense(got), b = Dense(want);
  double most = 0;
  for (int64_t i = 0; i < b.num_elements(); ++i) {
    const double x = ReadFloat(a, i), y = ReadFloat(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double part = std::abs(x - y) / (bound + relative * std::abs(y));
    most = std::max(most, std::isfinite(x) && std::isfinite(y) ? part : kInfinity);
  }
  return most;
}

std::string Label(const Graph& graph, NodeId id) {
  return absl::StrCat(graph.node(id).name, " (", graph.node(id).op->name, ")");
}

std::vector<std::string> Labels(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<std::string> labels;
  for (const NodeId id : nodes) labels.push_back(Label(graph, id));
  return labels;
}

absl::StatusOr<std::vector<OutputCheck>> CheckPart(const GraphPart& part, const RunFn& run) {
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> want, Interpret(part.graph, part.inputs));
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> got, run(part.graph, part.inputs));
  return CheckOutputs(part.graph, got, want);
}

double Worst(const std::vector<OutputCheck>& outputs) {
  double worst = 0;
  for (const OutputCheck& output : outputs) worst = std::max(worst, output.of_bound);
  return worst;
}

class Checker {
 public:
  Checker(const Compiled& compiled, const CompileOptions& options, const RunFn& run, GraphRun whole)
      : compiled_(compiled), options_(options), run_(run), whole_(std::move(whole)) {}

  GroupCheck Check(size_t number) {
    const Group& group = compiled_.grouping.groups[number];
    GroupCheck check;
    check.group = number;
    check.kind = Name(group.kind);
    check.nodes = Labels(compiled_.graph, group.nodes);
    const absl::StatusOr<GraphPart> part =
        PartOf(whole_, NodesOf(compiled_.graph, compiled_.grouping, group));
    absl::StatusOr<std::vector<OutputCheck>> outputs =
        part.ok() ? CheckPart(*part, run_) : part.status();
    if (!outputs.ok()) {
      check.refused = std::string(outputs.status().message());
      return check;
    }
    check.outputs = *std::move(outputs);
    check.of_bound = Worst(check.outputs);
    if (group.kind == Group::Kind::kKernel) check.same_kernel = IsSameKernel(group, part->graph);
    return check;
  }

  // A small part of a group that differs. kNotFound: why there is none.
  absl::StatusOr<Repro> Reduce(size_t number, uint64_t seed) {
    const Group& group = compiled_.grouping.groups[number];
    const std::set<NodeId> all = NodesOf(compiled_.graph, compiled_.grouping, group);
    const std::vector<NodeId> nodes(all.begin(), all.end());
    symbols_ = false;
    if (!Differs(nodes)) symbols_ = true;  // numbers compile to something else
    if (symbols_ && !Differs(nodes)) {
      return absl::NotFoundError(
          "without its constants of more than 64 KiB, which no text holds, the group does not "
          "differ");
    }
    const auto chosen = [&](const std::vector<size_t>& items) {
      std::vector<NodeId> some;
      for (const size_t item : items) some.push_back(nodes[item]);
      return some;
    };
    const SmallestPart smallest = FindSmallestPart(
        nodes.size(), [&](const std::vector<size_t>& items) { return Differs(chosen(items)); },
        kMostTries);
    Repro repro;
    repro.group = number;
    repro.nodes = Labels(compiled_.graph, chosen(smallest.items));
    repro.tries = smallest.tries;
    repro.minimal = smallest.minimal;
    KILN_RETURN_IF_ERROR(Write(chosen(smallest.items), seed, repro));
    return repro;
  }

 private:
  absl::StatusOr<GraphPart> SmallPart(const std::vector<NodeId>& nodes) const {
    return PartOf(whole_, {nodes.begin(), nodes.end()},
                  {.symbols = symbols_, .most_constant_bytes = kMostConstantBytes});
  }

  // A part that cannot be run does not differ.
  bool Differs(const std::vector<NodeId>& nodes) const {
    const absl::StatusOr<GraphPart> part = SmallPart(nodes);
    if (!part.ok()) return false;
    const absl::StatusOr<std::vector<OutputCheck>> outputs = CheckPart(*part, run_);
    return outputs.ok() && !AllOk(*outputs);
  }

  bool IsSameKernel(const Group& group, const Graph& part) const {
    const absl::StatusOr<LoweredGroup> lowered = LowerGroup(compiled_.graph, group);
    const absl::StatusOr<Compiled> alone = CompileGraph(part, options_);
    return lowered.ok() && alone.ok() && alone->variant.program.kernels_size() == 1 &&
           alone->variant.program.kernels(0).text() == Print(lowered->canonical.kernel);
  }

  // The part as text, and inputs with which it differs when it is read again.
  absl::Status Write(const std::vector<NodeId>& nodes, uint64_t seed, Repro& repro) const {
    KILN_ASSIGN_OR_RETURN(GraphPart part, SmallPart(nodes));
    repro.text = Print(part.graph);
    KILN_ASSIGN_OR_RETURN(part.graph, ParseGraph(repro.text));
    repro.symbols = part.symbols;
    CommonOptions quiet;
    quiet.quiet = true;
    for (const auto& [symbol, value] : part.symbols)
      quiet.dims.push_back(absl::StrCat(symbol, "=", value));
    for (uint64_t tried = seed; tried - seed < kSeeds; ++tried) {
      std::vector<std::string> specs;
      for (const ValueId id : part.graph.inputs())
        specs.push_back(absl::StrCat(part.graph.value(id).name, "=random:", tried));
      absl::StatusOr<std::vector<Tensor>> inputs = MakeInputs(part.graph, specs, quiet);
      if (!inputs.ok() || !NoteDifference({part.graph, *std::move(inputs), {}}, repro)) continue;
      repro.seed = tried;
      return absl::OkStatus();
    }
    if (!NoteDifference(part, repro))
      return absl::NotFoundError("the part does not differ any more when it is read from its text");
    for (size_t k = 0; k < part.inputs.size(); ++k)
      repro.inputs.emplace_back(part.graph.value(part.graph.inputs()[k]).name, part.inputs[k]);
    return absl::OkStatus();
  }

  bool NoteDifference(const GraphPart& part, Repro& repro) const {
    const absl::StatusOr<std::vector<OutputCheck>> outputs = CheckPart(part, run_);
    if (!outputs.ok()) return false;
    for (const OutputCheck& output : *outputs) {
      if (output.comparison.ok) continue;
      repro.output = output;
      return true;
    }
    return false;
  }

  const Compiled& compiled_;
  const CompileOptions& options_;
  const RunFn& run_;
  const GraphRun whole_;
  bool symbols_ = false;  // whether parts that are tried keep them
};

}  // namespace

std::vector<OutputCheck> CheckOutputs(const Graph& graph, const std::vector<Tensor>& got,
                                      const std::vector<Tensor>& want) {
  const double rounding = kUnits * CoarsestUnit(graph);
  const double relative = std::max(kRelative, rounding);
  std::vector<OutputCheck> checks;
  for (size_t k = 0; k < got.size(); ++k) {
    OutputCheck& check = checks.emplace_back();
    check.name = graph.outputs()[k].name;
    check.type = Describe(got[k]);
    check.bound = std::max(kDeviations, rounding) * StandardDeviation(want[k]);
    check.comparison = Compare(got[k], want[k], relative, check.bound);
    check.of_bound = PartOfBound(got[k], want[k], check.comparison, relative, check.bound);
  }
  return checks;
}

bool AllOk(const std::vector<OutputCheck>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const OutputCheck& output) { return output.comparison.ok; });
}

absl::StatusOr<GroupsCheck> CheckGroups(const Compiled& compiled, const std::vector<Tensor>& inputs,
                                        const CompileOptions& options, const RunFn& run,
                                        uint64_t seed) {
  GraphRun whole{compiled.graph, {}, {}};
  KILN_ASSIGN_OR_RETURN(whole.symbols, BindSymbols(compiled.graph, inputs));
  KILN_RETURN_IF_ERROR(Interpret(compiled.graph, inputs, [&](ValueId id, const Tensor& tensor) {
                         if (!compiled.graph.value(id).constant) whole.values[id] = tensor.Clone();
                       }).status());
  for (size_t k = 0; k < inputs.size(); ++k) whole.values[compiled.graph.inputs()[k]] = inputs[k];
  Checker checker(compiled, options, run, std::move(whole));
  GroupsCheck result;
  for (size_t number = 0; number < compiled.grouping.groups.size(); ++number) {
    const Group::Kind kind = compiled.grouping.groups[number].kind;
    if (kind != Group::Kind::kKernel && kind != Group::Kind::kLibrary) continue;
    const GroupCheck& check = result.groups.emplace_back(checker.Check(number));
    if (!check.refused.empty()) continue;
    if (!result.worst || check.of_bound > result.groups[*result.worst].of_bound)
      result.worst = result.groups.size() - 1;
  }
  if (!result.worst || result.groups[*result.worst].ok()) return result;
  absl::StatusOr<Repro> repro = checker.Reduce(result.groups[*result.worst].group, seed);
  if (repro.ok()) {
    result.repro = *std::move(repro);
  } else {
    result.no_repro = std::string(repro.status().message());
  }
  return result;
}

}  // namespace kiln
