// SPDX-License-Identifier: Apache-2.0
#include "tests/fusion/strict_judge.h"

#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "graph/op.h"
#include "graph/text.h"

namespace kiln {
namespace {

// The exceptions of docs/numerics.md: what depends on such a node is not compared.
struct Exception {
  const char* what;
  bool (*holds)(const Graph& graph, const Node& node);
};

constexpr Exception kExceptions[] = {
    {"library operators, and what levels 2 and 3 make of what stands around them",
     [](const Graph&, const Node& node) { return node.op->kind == OpKind::kLibrary; }},
};

// By output: whether no exception is before it.
std::vector<bool> Comparable(const Graph& graph) {
  std::set<ValueId> excepted;
  for (const Node& node : graph.nodes()) {
    bool out = false;
    for (const Exception& exception : kExceptions) out = out || exception.holds(graph, node);
    for (const ValueId input : node.inputs) out = out || excepted.count(input) > 0;
    if (out) excepted.insert(node.outputs.begin(), node.outputs.end());
  }
  std::vector<bool> comparable;
  for (const Graph::Output& output : graph.outputs())
    comparable.push_back(excepted.count(output.value) == 0);
  return comparable;
}

absl::StatusOr<std::vector<Tensor>> RunNet(const TypedGraph& net, const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(net.graph, options));
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (size_t k = 0; k < net.inputs.size(); ++k)
    inputs.emplace_back(net.graph.value(net.graph.inputs()[k]).name, net.inputs[k]);
  return model.Run(inputs);
}

CompileOptions ServiceOptions(const std::string& cache) {
  CompileOptions options;
  options.threads = 1;
  options.compile_mode = CompileMode::kBlock;
  options.cache.directory = cache;
  return options;
}

std::string NameOf(const StrictSetting& setting) {
  return absl::StrCat("-O", setting.level, " --jit ", setting.jit_level,
                      setting.compiled ? ", compiled" : ", on the VM");
}

}  // namespace

std::vector<StrictSetting> SettingsOnVm() {
  return {{1, 2, false}, {2, 2, false}, {3, 1, false}, {3, 2, false}};
}

StrictJudge::StrictJudge(const std::string& cache)
    : kernels_(std::make_shared<KernelService>(ServiceOptions(cache))) {}

CompileOptions StrictJudge::OptionsFor(const StrictSetting& setting) const {
  CompileOptions options;
  options.graph_opt_level = setting.level;
  options.jit_level = setting.jit_level;
  options.threads = 1;
  options.compile_mode = setting.compiled ? CompileMode::kBlock : CompileMode::kNever;
  options.cache.enabled = false;
  if (setting.compiled) options.kernels = kernels_;
  return options;
}

std::string StrictJudge::Difference(const TypedGraph& net, const StrictSetting& setting,
                                    const std::vector<Tensor>& want) {
  const int failed = kernels_->counts().failed;
  const auto got = RunNet(net, OptionsFor(setting));
  if (!got.ok()) return absl::StrCat(NameOf(setting), ": ", got.status().ToString());
  if (kernels_->counts().failed > failed)
    return absl::StrCat(NameOf(setting), ": a kernel of it could not be built or validated");
  const std::vector<bool> comparable = Comparable(net.graph);
  for (size_t i = 0; i < want.size(); ++i) {
    if (!comparable[i]) continue;
    const Comparison comparison = CompareBits((*got)[i], want[i]);
    if (!comparison.ok) {
      return absl::StrCat(NameOf(setting), ", output \"", net.graph.outputs()[i].name,
                          "\" against -O0: ", comparison.what);
    }
  }
  return "";
}

std::string StrictJudge::Shrink(TypedGraph& net, const StrictSetting& setting) {
  for (const Node& node : net.graph.nodes()) {
    for (const ValueId value : node.outputs) {
      TypedGraph part = net;
      part.graph.SetOutputs({{"y", value}});
      part.graph.RemoveDead();
      const auto want = RunNet(part, OptionsFor({0, 2, false}));
      std::string wrong = want.ok() ? Difference(part, setting, *want) : want.status().ToString();
      if (wrong.empty()) continue;
      net = std::move(part);
      return wrong;
    }
  }
  return "";
}

std::string StrictJudge::Check(TypedGraph& net, const std::vector<StrictSetting>& settings) {
  const auto want = RunNet(net, OptionsFor({0, 2, false}));
  if (!want.ok()) return absl::StrCat("-O0: ", want.status().ToString());
  for (const StrictSetting& setting : settings) {
    const std::string wrong = Difference(net, setting, *want);
    if (wrong.empty()) continue;
    const std::string least = Shrink(net, setting);
    return least.empty() ? wrong : least;
  }
  return "";
}

std::string WriteCase(const TypedGraph& net, const std::string& directory) {
  std::ofstream(absl::StrCat(directory, "/case.graph")) << Print(net.graph);
  std::string command = absl::StrCat("kiln run ", directory, "/case.graph --threads 1");
  for (size_t k = 0; k < net.inputs.size(); ++k) {
    const std::string name = net.graph.value(net.graph.inputs()[k]).name;
    const std::string path = absl::StrCat(directory, "/", name, ".npy");
    if (!WriteNpy(path, net.inputs[k]).ok()) return absl::StrCat("cannot write ", path);
    absl::StrAppend(&command, " --input ", name, "=@", path);
  }
  return command;
}

}  // namespace kiln
