// SPDX-License-Identifier: Apache-2.0
#include "bench/price/gain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/measure_machine.h"
#include "fusion/lower.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "kernel/text.h"

namespace kiln::bench {
namespace {

constexpr double kAllowed = 1.08;

// The nodes of a group, with the views between them, as a graph.
class Cut {
 public:
  Cut(const Graph& graph, const Group& group) : graph_(graph), group_(group) {
    cut_.name = "group";
  }

  absl::StatusOr<Graph> Run() {
    for (const ValueId output : group_.outputs) {
      KILN_ASSIGN_OR_RETURN(const ValueId made, Take(output));
      cut_.AddOutput(made, absl::StrCat("out", output.v));
    }
    return std::move(cut_);
  }

 private:
  bool Inside(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    return producer.v >= 0 &&
           std::binary_search(group_.nodes.begin(), group_.nodes.end(), producer);
  }

  // True if a node of the group makes the value, or what it is a reshape of.
  bool ComesFromInside(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (producer.v < 0 || graph_.value(value).constant) return false;
    if (Inside(value)) return true;
    const Node& node = graph_.node(producer);
    return node.op->kind == OpKind::kIndex && ComesFromInside(node.inputs[0]);
  }

  absl::StatusOr<ValueId> Take(ValueId value) {
    if (const auto it = taken_.find(value); it != taken_.end()) return it->second;
    const Value& v = graph_.value(value);
    if (v.constant) return taken_[value] = cut_.AddConstant("", *v.constant);
    if (!ComesFromInside(value))
      return taken_[value] = cut_.AddInput(absl::StrCat("in", value.v), v.type, v.shape);
    const Node& node = graph_.node(v.producer);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      if (!input.valid()) {
        inputs.push_back(input);
        continue;
      }
      KILN_ASSIGN_OR_RETURN(const ValueId taken, Take(input));
      inputs.push_back(taken);
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                          cut_.AddNode(*node.op, std::move(inputs), node.attrs, "",
                                       std::vector<std::string>(node.outputs.size())));
    for (size_t k = 0; k < outputs.size(); ++k) taken_[node.outputs[k]] = outputs[k];
    return taken_.at(value);
  }

  const Graph& graph_;
  const Group& group_;
  Graph cut_;
  std::map<ValueId, ValueId> taken_;
};

absl::StatusOr<int64_t> KernelsOf(const Graph& graph, const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(const Compiled compiled, CompileGraph(graph, options));
  return std::count_if(compiled.grouping.groups.begin(), compiled.grouping.groups.end(),
                       [](const Group& group) { return group.kind == Group::Kind::kKernel; });
}

// The graph with numbers for its symbols, 1 where nothing is given.
absl::StatusOr<Graph> WithDims(const Graph& graph, const SymbolValues& given) {
  std::set<std::string> symbols = FreeSymbols(graph);
  for (const ValueId input : graph.inputs()) {
    for (const Dim& dim : graph.value(input).shape) dim.CollectSymbols(symbols);
  }
  std::map<std::string, Dim> dims;
  for (const std::string& symbol : symbols) {
    const auto it = given.find(symbol);
    dims.emplace(symbol, it == given.end() ? 1 : it->second);
  }
  return WithSymbols(graph, dims);
}

}  // namespace

absl::Status PrintGains(const std::string& path, const GainSettings& settings) {
  CompileOptions options;
  options.threads = 1;
  KILN_ASSIGN_OR_RETURN(const Graph graph, ReadModel(path));
  KILN_ASSIGN_OR_RETURN(const Compiled compiled, CompileGraph(graph, options));
  CompileOptions apart = options;
  apart.jit_level = 0;
  std::set<std::string> seen;
  int timed = 0, slower = 0;
  double gain = 0;  // logarithms
  for (const Group& group : compiled.grouping.groups) {
    if (group.kind != Group::Kind::kKernel || group.nodes.size() < 2) continue;
    KILN_ASSIGN_OR_RETURN(const LoweredGroup lowered, LowerGroup(compiled.graph, group));
    std::string key = Print(lowered.canonical.kernel);
    for (const Dim& dim : lowered.dims) absl::StrAppend(&key, " ", dim.ToString());
    if (!seen.insert(key).second) continue;
    KILN_ASSIGN_OR_RETURN(const Graph open, Cut(compiled.graph, group).Run());
    KILN_ASSIGN_OR_RETURN(const Graph cut, WithDims(open, settings.dims));
    KILN_ASSIGN_OR_RETURN(const int64_t kernels, KernelsOf(cut, options));
    std::vector<double> ratios;
    double fused_us = 0;
    for (int run = 0; run < 3; ++run) {
      KILN_ASSIGN_OR_RETURN(const double fused, RunNs(cut, options, settings.seconds));
      KILN_ASSIGN_OR_RETURN(const double unfused, RunNs(cut, apart, settings.seconds));
      ratios.push_back(fused / unfused);
      fused_us = fused / 1000;
    }
    if (fused_us < settings.least_us) continue;
    std::sort(ratios.begin(), ratios.end());
    const bool bad = ratios[1] > kAllowed;
    ++timed;
    slower += bad ? 1 : 0;
    gain -= std::log(ratios[1]);
    if (!bad && kernels == 1 && !settings.list) continue;
    std::printf("%s: %s of %zu nodes, %.1f us: fused / unfused %.2f %.2f %.2f%s%s\n", path.c_str(),
                compiled.graph.node(group.nodes[0]).name.c_str(), group.nodes.size(), fused_us,
                ratios[0], ratios[1], ratios[2], bad ? "  SLOWER" : "",
                kernels == 1 ? "" : "  (alone it is several kernels)");
  }
  std::printf("%s: %d kernels, %d slower than their nodes; unfused / fused %.2f (geometric mean)\n",
              path.c_str(), timed, slower, timed == 0 ? 1 : std::exp(gain / timed));
  return absl::OkStatus();
}

}  // namespace kiln::bench
