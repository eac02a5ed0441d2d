// SPDX-License-Identifier: Apache-2.0
// kiln verify: runs a model compiled and on the float64 interpreter, and compares outputs, or what
// every group hands on.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "compiler/segments.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/inputs.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct VerifyFlags {
  CommonOptions common;
  std::string model;
  std::vector<std::string> inputs;
  uint64_t seed = 1;
  bool per_group = false;
};

// Floats may be off by this many standard deviations of the value: room for any order of summation,
// and far below what a wrong kernel does.
constexpr double kDeviations = 1e-3;
constexpr double kRelative = 1e-5;
// And by this many units of the coarsest type of the graph: every operator rounds to its type,
// which the interpreter does not.
constexpr double kUnits = 8;

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

// With everything that dynamic nodes take and give as outputs too.
Graph WithSegmentOutputs(Graph graph) {
  std::set<ValueId> known;
  for (const Graph::Output& output : graph.outputs()) known.insert(output.value);
  for (const Node& node : graph.nodes()) {
    if (!node.op->dynamic) continue;
    std::vector<ValueId> values = node.inputs;
    values.insert(values.end(), node.outputs.begin(), node.outputs.end());
    for (const ValueId id : values) {
      if (id.valid() && graph.value(id).producer.v >= 0 && known.insert(id).second)
        graph.AddOutput(id, absl::StrCat("value ", graph.value(id).name));
    }
  }
  return graph;
}

// The graph after passes, with everything that a group hands on as an output. A graph with dynamic
// nodes is several programs: what they hand each other.
absl::StatusOr<Graph> WithGroupOutputs(const Graph& graph, const CompileOptions& options) {
  if (HasDynamicNodes(graph)) return WithSegmentOutputs(graph);
  KILN_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(graph, options));
  std::map<ValueId, bool> known;
  for (const Graph::Output& output : compiled.graph.outputs()) known[output.value] = true;
  for (const Group& group : compiled.grouping.groups) {
    for (const ValueId id : group.outputs) {
      if (group.kind != Group::Kind::kView && known.emplace(id, true).second) {
        compiled.graph.AddOutput(id, absl::StrCat("value ", compiled.graph.value(id).name));
      }
    }
  }
  return std::move(compiled.graph);
}

// The user's --input flags, and random:SEED for every other input.
std::vector<std::string> Seeded(const Graph& graph, const VerifyFlags& flags) {
  std::vector<std::string> specs = flags.inputs;
  for (const ValueId id : graph.inputs()) {
    const std::string& name = graph.value(id).name;
    bool given = false;
    for (const std::string& spec : flags.inputs)
      given = given || spec.substr(0, spec.find('=')) == name;
    if (!given) specs.push_back(absl::StrCat(name, "=random:", flags.seed));
  }
  return specs;
}

int Run(const VerifyFlags& flags) {
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<ModelSource> model =
      ModelSource::Read(flags.model, ImportOptionsOf(*options));
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  const absl::StatusOr<std::vector<Tensor>> inputs =
      MakeInputs(model->graph(), Seeded(model->graph(), flags), flags.common);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  absl::StatusOr<Graph> graph = model->GraphFor(*inputs);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  if (flags.per_group) graph = WithGroupOutputs(*graph, *options);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  const absl::StatusOr<std::vector<Tensor>> got = RunGraph(*graph, *inputs, *options);
  if (!got.ok()) return Fail(got.status(), ModelExit(got.status()));
  const absl::StatusOr<std::vector<Tensor>> want = Interpret(*graph, *inputs);
  if (!want.ok()) return Fail(want.status(), ModelExit(want.status()));

  bool ok = true;
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"output", "type", "max abs", "bound", ""}};
  const double rounding = kUnits * CoarsestUnit(*graph);
  for (size_t k = 0; k < got->size(); ++k) {
    const double bound = std::max(kDeviations, rounding) * StandardDeviation((*want)[k]);
    const Comparison c = Compare((*got)[k], (*want)[k], std::max(kRelative, rounding), bound);
    ok = ok && c.ok;
    nlohmann::json row = ToJson(c);
    row["name"] = graph->outputs()[k].name;
    row["bound"] = bound;
    list.push_back(row);
    rows.push_back({graph->outputs()[k].name, Describe((*got)[k]), Short(c.max_abs), Short(bound),
                    c.ok ? "ok" : absl::StrCat("DIFFERS: ", c.what)});
  }
  if (flags.common.json) {
    PrintJson("verify", flags.common, {{"ok", ok}, {"outputs", list}});
  } else {
    std::cout << Table(rows);
  }
  return ok ? kExitOk : kExitDiffers;
}

}  // namespace

std::function<int()> AddVerify(CLI::App& command) {
  auto flags = std::make_shared<VerifyFlags>();
  command.add_option("MODEL", flags->model, "ONNX file, or .graph text")->required();
  Repeatable(command.add_option("--input", flags->inputs,
                                "n=@a.npy, n=random:SEED[:LO:HI], n=zeros or n=ones (repeatable)"));
  command.add_option("--seed", flags->seed, "Seed of inputs that are not given")
      ->capture_default_str();
  command.add_flag("--per-group", flags->per_group,
                   "Compare what every group hands on, not only outputs");
  AddCommonFlags(command, flags->common);
  return [flags] { return Run(*flags); };
}

}  // namespace kiln
