// SPDX-License-Identifier: Apache-2.0
// kiln verify: runs a model compiled and on the float64 interpreter, and compares outputs, or every
// group by itself.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/npy.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "compiler/segments.h"
#include "graph/op.h"
#include "graph/reference/gradient_check.h"
#include "graph/reference/interpreter.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/inputs.h"
#include "tools/report.h"
#include "tools/verify_groups.h"

namespace kiln {
namespace {

struct VerifyFlags {
  CommonOptions common;
  std::string model;
  std::vector<std::string> inputs;
  uint64_t seed = 1;
  bool per_group = false;
  bool gradients = false;
  std::string repro = "verify_repro.graph";
};

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

// A word as a shell takes it.
std::string Quoted(const std::string& word) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

// The command that compares a part as it was compared here.
std::string CommandFor(const VerifyFlags& flags, const Repro& repro,
                       const std::vector<std::string>& inputs) {
  const CommonOptions& common = flags.common;
  std::vector<std::string> words = {"kiln", "verify", flags.repro,
                                    absl::StrCat("-O", common.level)};
  const auto add = [&](const std::string& flag, const std::string& value) {
    words.push_back(flag);
    words.push_back(value);
  };
  if (common.jit != 2) add("--jit", absl::StrCat(common.jit));
  if (common.threads != 0) add("--threads", absl::StrCat(common.threads));
  for (const std::string& pass : common.disabled_passes) add("--disable-pass", pass);
  if (common.rules != "priced") add("--rules", common.rules);
  if (!common.machine.empty()) add("--machine", common.machine);
  if (common.compile_mode != "block") add("--compile-mode", common.compile_mode);
  if (common.device_library != "auto") add("--device-library", common.device_library);
  if (!common.workspace_limit.empty()) add("--workspace-limit", common.workspace_limit);
  if (!common.cache_dir.empty()) add("--cache-dir", common.cache_dir);
  if (common.no_cache) words.emplace_back("--no-cache");
  for (const auto& [symbol, value] : repro.symbols) add("--dim", absl::StrCat(symbol, "=", value));
  if (repro.seed) add("--seed", absl::StrCat(*repro.seed));
  for (const std::string& input : inputs) add("--input", input);
  return absl::StrJoin(words, " ",
                       [](std::string* out, const std::string& word) { *out += Quoted(word); });
}

// Writes --repro, and beside it the inputs that no seed makes; gives the command that shows it.
absl::StatusOr<std::string> WriteRepro(const VerifyFlags& flags, const Repro& repro) {
  std::vector<std::string> inputs;
  for (const auto& [name, tensor] : repro.inputs) {
    const std::string file = absl::StrCat(flags.repro, ".", name, ".npy");
    KILN_RETURN_IF_ERROR(Annotate(WriteNpy(file, tensor), "--repro"));
    inputs.push_back(absl::StrCat(name, "=@", file));
  }
  const std::string command = CommandFor(flags, repro, inputs);
  const std::string text =
      absl::StrCat("# ", absl::StrReplaceAll(command, {{"\n", " "}}), "\n", repro.text);
  KILN_RETURN_IF_ERROR(Annotate(WriteFileDurably(flags.repro, text), "--repro"));
  return command;
}

nlohmann::json CheckToJson(const OutputCheck& check) {
  nlohmann::json row = ToJson(check.comparison);
  row["name"] = check.name;
  row["bound"] = check.bound;
  return row;
}

nlohmann::json CheckToJson(const std::vector<OutputCheck>& checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const OutputCheck& check : checks) list.push_back(CheckToJson(check));
  return list;
}

nlohmann::json CheckToJson(const GroupCheck& check) {
  nlohmann::json row = {{"group", check.group},       {"kind", check.kind},
                        {"nodes", check.nodes},       {"ok", check.ok()},
                        {"of_bound", check.of_bound}, {"outputs", CheckToJson(check.outputs)}};
  if (!check.refused.empty()) row["refused"] = check.refused;
  if (check.same_kernel) row["same_kernel"] = *check.same_kernel;
  return row;
}

std::string VerdictOf(const OutputCheck& check) {
  return check.comparison.ok ? "ok" : absl::StrCat("DIFFERS: ", check.comparison.what);
}

void PrintOutputs(const std::vector<OutputCheck>& checks) {
  std::vector<std::vector<std::string>> rows = {{"output", "type", "max abs", "bound", ""}};
  for (const OutputCheck& check : checks) {
    rows.push_back({check.name, check.type, Short(check.comparison.max_abs), Short(check.bound),
                    VerdictOf(check)});
  }
  std::cout << Table(rows);
}

void PrintGroups(const GroupsCheck& groups) {
  std::vector<std::vector<std::string>> rows = {
      {"group", "kind", "nodes", "max abs", "of bound", "", "members"}};
  int kernels = 0, same = 0;
  for (const GroupCheck& group : groups.groups) {
    kernels += group.same_kernel ? 1 : 0;
    same += group.same_kernel.value_or(false) ? 1 : 0;
    double most = 0;
    for (const OutputCheck& output : group.outputs)
      most = std::max(most, output.comparison.max_abs);
    rows.push_back({absl::StrCat(group.group), group.kind, absl::StrCat(group.nodes.size()),
                    Short(most), Short(group.of_bound),
                    !group.refused.empty() ? "not compared"
                    : group.ok()           ? "ok"
                                           : "DIFFERS",
                    absl::StrCat(group.nodes[0], group.nodes.size() > 1 ? " ..." : "")});
  }
  std::cout << Table(rows);
  if (same < kernels) {
    std::cout << same << " of " << kernels
              << " kernels are the model's; alone, the others compile to other ones\n";
  }
  for (const GroupCheck& group : groups.groups) {
    if (!group.refused.empty())
      std::cout << "group " << group.group << " is not compared: " << group.refused << "\n";
  }
  if (!groups.worst) return;
  const GroupCheck& worst = groups.groups[*groups.worst];
  std::cout << "worst: group " << worst.group << ", " << Short(worst.of_bound)
            << " of its bound: " << absl::StrJoin(worst.nodes, ", ") << "\n";
  for (const OutputCheck& output : worst.outputs) {
    if (!output.comparison.ok) std::cout << output.name << " " << VerdictOf(output) << "\n";
  }
}

// What is told of the smallest part: its nodes, the file, the command.
nlohmann::json CheckToJson(const VerifyFlags& flags, const Repro& repro,
                           const std::string& command) {
  nlohmann::json inputs = nlohmann::json::array();
  for (const auto& [name, tensor] : repro.inputs) inputs.push_back(name);
  nlohmann::json seed;
  if (repro.seed) seed = *repro.seed;
  return {
      {"group", repro.group},     {"nodes", repro.nodes}, {"tries", repro.tries},
      {"minimal", repro.minimal}, {"file", flags.repro},  {"seed", seed},
      {"inputs", inputs},         {"command", command},   {"output", CheckToJson(repro.output)}};
}

void PrintRepro(const VerifyFlags& flags, const Repro& repro, const std::string& command) {
  std::cout << "the smallest part that differs, after " << repro.tries << " tries"
            << (repro.minimal ? "" : " (there may be a smaller one)") << ": "
            << absl::StrJoin(repro.nodes, ", ") << "\n"
            << "written to " << flags.repro << "; this shows it:\n  " << command << "\n";
}

// --per-group on one program: what it found goes into `results`, or is printed. Exit code, or the
// status of what could not be done.
absl::StatusOr<bool> CheckEachGroup(const VerifyFlags& flags, const Graph& graph,
                                    const std::vector<Tensor>& inputs, CompileOptions options,
                                    nlohmann::json& results) {
  KILN_ASSIGN_OR_RETURN(const Compiled compiled, CompileGraph(graph, options));
  options.no_fuse.clear();  // names that a part need not have
  options.dump = nullptr;
  options.kernels = std::make_shared<KernelService>(options);
  const RunFn run = [&](const Graph& part, const std::vector<Tensor>& values) {
    return RunGraph(part, values, options);
  };
  KILN_ASSIGN_OR_RETURN(const GroupsCheck groups,
                        CheckGroups(compiled, inputs, options, run, flags.seed));
  if (!flags.common.json) PrintGroups(groups);
  bool ok = true;
  results["groups"] = nlohmann::json::array();
  for (const GroupCheck& group : groups.groups) {
    ok = ok && (group.ok() || !group.refused.empty());
    results["groups"].push_back(CheckToJson(group));
  }
  if (groups.worst) results["worst"] = groups.groups[*groups.worst].group;
  if (groups.repro) {
    KILN_ASSIGN_OR_RETURN(const std::string command, WriteRepro(flags, *groups.repro));
    results["repro"] = CheckToJson(flags, *groups.repro, command);
    if (!flags.common.json) PrintRepro(flags, *groups.repro, command);
  } else if (!groups.no_repro.empty()) {
    results["no_repro"] = groups.no_repro;
    if (!flags.common.json) std::cout << "no smaller part is written: " << groups.no_repro << "\n";
  }
  return ok;
}

int CompareOutputs(const VerifyFlags& flags, const Graph& graph, const std::vector<Tensor>& inputs,
                   const CompileOptions& options) {
  const bool parts = flags.per_group && HasDynamicNodes(graph);
  const Graph compared = parts ? WithSegmentOutputs(graph) : graph;
  const absl::StatusOr<std::vector<Tensor>> got = RunGraph(compared, inputs, options);
  if (!got.ok()) return Fail(got.status(), ModelExit(got.status()));
  const absl::StatusOr<std::vector<Tensor>> want = Interpret(compared, inputs);
  if (!want.ok()) return Fail(want.status(), ModelExit(want.status()));
  const std::vector<OutputCheck> checks = CheckOutputs(compared, *got, *want);
  bool ok = AllOk(checks);
  if (!flags.common.json) PrintOutputs(checks);
  nlohmann::json results = {{"outputs", CheckToJson(checks)}};
  if (parts) {
    Note(flags.common,
         "the model is several programs: what they hand each other is compared, not every group");
  } else if (flags.per_group) {
    const bool outputs = ok;
    const absl::StatusOr<bool> groups = CheckEachGroup(flags, graph, inputs, options, results);
    if (!groups.ok()) {
      const bool file = absl::StrContains(groups.status().message(), "--repro");
      return Fail(groups.status(), file ? kExitIo : ModelExit(groups.status()));
    }
    ok = ok && *groups;
    if (!outputs && *groups && !flags.common.json)
      std::cout << "outputs differ, and no group does by itself: errors add up\n";
  }
  results["ok"] = ok;
  if (flags.common.json) PrintJson("verify", flags.common, std::move(results));
  return ok ? kExitOk : kExitDiffers;
}

// --gradients: what the gradient of a random sum of the outputs says and what differences say, for
// every float input and constant of several floats.
int CompareWithDifferences(const VerifyFlags& flags, const Graph& model,
                           std::vector<Tensor> inputs) {
  const absl::StatusOr<Graph> graph = InF64(model, inputs, /*parameters=*/true);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  const GradientCheckOptions options{
      .steps = {1e-3, 1e-4, 1e-5, 1e-6}, .most_elements = 4, .directions = 1, .seed = flags.seed};
  const absl::StatusOr<std::vector<GradientComparison>> comparisons =
      CompareGradients(*graph, inputs, options);
  if (!comparisons.ok()) return Fail(comparisons.status(), ModelExit(comparisons.status()));
  bool ok = true;
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {
      {"input", "elements", "directions", "gradient", "differences", "of bound", ""}};
  for (const GradientComparison& c : *comparisons) {
    ok = ok && c.ok();
    rows.push_back({c.input, absl::StrCat(c.elements), absl::StrCat(c.directions),
                    Short(c.gradient), Short(c.difference), Short(c.of_bound),
                    c.ok() ? "ok" : "DIFFERS"});
    list.push_back({{"input", c.input},
                    {"elements", c.elements},
                    {"directions", c.directions},
                    {"gradient", c.gradient},
                    {"difference", c.difference},
                    {"of_bound", c.of_bound},
                    {"ok", c.ok()}});
  }
  if (flags.common.json) {
    PrintJson("verify", flags.common, {{"gradients", std::move(list)}, {"ok", ok}});
  } else {
    std::cout << Table(rows);
  }
  return ok ? kExitOk : kExitDiffers;
}

int RunVerify(const VerifyFlags& flags) {
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<ModelSource> model =
      ModelSource::Read(flags.model, ImportOptionsOf(*options));
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  const absl::StatusOr<std::vector<Tensor>> inputs =
      MakeInputs(model->graph(), Seeded(model->graph(), flags), flags.common);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  const absl::StatusOr<Graph> graph = model->GraphFor(*inputs);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));
  if (flags.gradients) return CompareWithDifferences(flags, *graph, *inputs);
  return CompareOutputs(flags, *graph, *inputs, *options);
}

}  // namespace

void AddVerify(Flags& command) {
  auto flags = std::make_shared<VerifyFlags>();
  command.Option("MODEL", flags->model, "ONNX file, or .graph text").File().Required();
  command
      .Option("--input", flags->inputs,
              "n=@a.npy, n=random:SEED[:LO:HI], n=zeros or n=ones (repeatable)")
      .Repeatable();
  command.Option("--seed", flags->seed, "Seed of inputs that are not given").ShowDefault();
  command.Switch("--per-group", flags->per_group,
                 "Also compare every group by itself, on the interpreter's values; of the worst "
                 "that differs, write a small part that still does");
  command.Switch("--gradients", flags->gradients,
                 "Compare gradients with differences instead, in float64");
  command.Option("--repro", flags->repro, "With --per-group: where that part is written")
      .File()
      .ShowDefault();
  AddCommonFlags(command, flags->common);
  command.Runs([flags] { return RunVerify(*flags); });
}

}  // namespace kiln
