// SPDX-License-Identifier: Apache-2.0
// kiln report: a page of what becomes of a model and how it runs.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "exec/plan_info.h"
#include "graph/op.h"
#include "nlohmann/json.hpp"
#include "tools/exit_code.h"
#include "tools/explain_copies.h"
#include "tools/explain_plan.h"
#include "tools/flags.h"
#include "tools/html_report.h"
#include "tools/inputs.h"
#include "tools/plan_text.h"
#include "tools/report.h"
#include "tools/report_verb.h"

namespace kiln {
namespace {

constexpr int kRuns = 5;  // of which the least times are shown

struct ReportFlags {
  CommonOptions common;
  std::string model, output;
  std::vector<std::string> inputs;
};

bool IsLaunch(const Group& group) {
  return group.kind == Group::Kind::kKernel || group.kind == Group::Kind::kLibrary;
}

// The groups that these values come from, through nodes that are in none: what a launch takes along
// of views, and shape arithmetic.
std::set<size_t> GroupsBefore(const Graph& graph, std::vector<ValueId> values,
                              const std::map<int32_t, size_t>& group_of) {
  std::set<size_t> found;
  std::set<int32_t> seen;
  while (!values.empty()) {
    const ValueId value = values.back();
    values.pop_back();
    if (!value.valid()) continue;
    const NodeId producer = graph.value(value).producer;
    if (producer.v < 0 || !seen.insert(producer.v).second) continue;
    const auto group = group_of.find(producer.v);
    if (group != group_of.end()) {
      found.insert(group->second);
      continue;
    }
    const std::vector<ValueId>& more = graph.node(producer).inputs;
    values.insert(values.end(), more.begin(), more.end());
  }
  return found;
}

// The groups of a part behind those that are there.
void AddGroups(const PlannedPart& part, GroupPicture& picture) {
  const Graph& graph = part.compiled.graph;
  const size_t first = picture.boxes.size();
  std::map<int32_t, size_t> group_of;  // by node
  const std::vector<Group>& groups = part.compiled.grouping.groups;
  for (size_t k = 0; k < groups.size(); ++k) {
    GroupBox& box = picture.boxes.emplace_back();
    box.kind = Name(groups[k].kind);
    for (const NodeId id : groups[k].nodes) {
      group_of[id.v] = first + k;
      box.nodes.push_back(absl::StrCat(graph.node(id).op->name, " ", graph.node(id).name));
    }
    const GroupBytesAccessed& bytes = part.traffic.groups[k];
    if (IsLaunch(groups[k]))
      box.costs =
          absl::StrCat(Bytes(bytes.in + bytes.out), ", ", Short(part.predicted_us[k]), " us");
  }
  std::set<std::pair<size_t, size_t>> edges;
  for (const Group& group : groups) {
    for (const NodeId id : group.nodes) {
      for (const size_t from : GroupsBefore(graph, graph.node(id).inputs, group_of)) {
        if (from != group_of[id.v]) edges.emplace(from, group_of[id.v]);
      }
    }
  }
  picture.edges.insert(picture.edges.end(), edges.begin(), edges.end());
}

// The kernels of a part, whose first group is `first`; with the times of `launches`, if these are
// those of its groups.
void AddKernels(const PlannedPart& part, size_t first, const std::vector<ThunkTime>& launches,
                ReportPage& page) {
  const std::vector<Group>& groups = part.compiled.grouping.groups;
  std::vector<const program::KernelDef*> defs;  // of launches in order; null: a library call
  const program::Program& program = part.compiled.variant.program;
  for (const program::Thunk& thunk : program.regions(0).thunks()) {
    if (thunk.has_kernel()) defs.push_back(&program.kernels(thunk.kernel().kernel()));
    if (thunk.has_library()) defs.push_back(nullptr);
  }
  std::vector<double> ms;
  for (const ThunkTime& time : launches) {
    if (time.kind == "kernel" || time.kind == "library") ms.push_back(time.ms);
  }
  size_t next = 0;
  for (size_t k = 0; k < groups.size(); ++k) {
    if (!IsLaunch(groups[k])) continue;
    const size_t launch = next++;
    if (groups[k].kind != Group::Kind::kKernel || launch >= defs.size() || defs[launch] == nullptr)
      continue;
    ReportPage::Kernel& kernel = page.kernels.emplace_back();
    kernel.group = first + k;
    kernel.nodes = defs[launch]->name();
    for (const program::KernelChoice& choice : defs[launch]->choices())
      absl::StrAppend(&kernel.schedule, kernel.schedule.empty() ? "" : "; ", choice.schedule());
    kernel.text = defs[launch]->text();
    kernel.predicted_us = part.predicted_us[k];
    if (ms.size() == defs.size()) kernel.measured_us = ms[launch] * 1000;
  }
}

// Runs the model on `inputs`, and notes its launches with their least times and its memory plan.
absl::Status MeasurePage(const Graph& graph, const std::vector<Tensor>& inputs,
                         CompileOptions options, ReportPage& page) {
  std::vector<std::string> plans;
  options.on_plan = [&](const PlanInfo& plan) { plans.push_back(plan.text); };
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  Context context = model.NewContext();
  for (size_t k = 0; k < inputs.size(); ++k)
    KILN_RETURN_IF_ERROR(context.Bind(graph.value(graph.inputs()[k]).name, inputs[k]));
  KILN_RETURN_IF_ERROR(context.Run());
  for (int run = 0; run < kRuns; ++run) {
    KILN_ASSIGN_OR_RETURN(const std::vector<ThunkTime> times, context.Profile());
    if (page.launches.size() != times.size()) page.launches = times;
    for (size_t k = 0; k < times.size(); ++k)
      page.launches[k].ms = std::min(page.launches[k].ms, times[k].ms);
  }
  if (plans.size() != 1) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const PlanText plan, ParsePlanText(plans[0]));
  page.memory = ArenaPlan(plan, page.title);
  return absl::OkStatus();
}

void AddFacts(const std::vector<PlannedPart>& parts, const CompileOptions& options,
              ReportPage& page) {
  const PlanSums sums = SumOf(parts);
  double ms = 0;
  for (const ThunkTime& time : page.launches) ms += time.ms;
  page.facts = {{"Launches", absl::StrCat(page.launches.size())},
                {"Time of all launches", absl::StrCat(Short(ms * 1000), " us")},
                {"Predicted, with one thread", absl::StrCat(Short(sums.predicted_us), " us")},
                {"Bytes walked", Bytes(sums.walked)},
                {"Node by node", Bytes(sums.unfused)},
                {"Target", std::string(TargetOf(options).name())}};
  if (OnHost(TargetOf(options).device)) return;
  for (const PlannedPart& part : parts) {
    const std::string on_cpu = HostLaunchesOf(part.compiled.variant.program).ToString();
    if (!on_cpu.empty()) page.facts.emplace_back("On the CPU", on_cpu);
  }
  const auto vm = std::count_if(page.launches.begin(), page.launches.end(),
                                [](const ThunkTime& launch) { return launch.vm; });
  if (vm > 0) page.facts.emplace_back("On the VM of the CPU", absl::StrCat(vm, " launches"));
}

int Report(const ReportFlags& flags) {
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<ModelSource> model =
      ModelSource::Read(flags.model, ImportOptionsOf(*options));
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  int exit = kExitOk;
  const absl::StatusOr<Graph> graph = GraphToLookAt(*model, flags.inputs, flags.common, &exit);
  if (!graph.ok()) return Fail(graph.status(), exit);
  const absl::StatusOr<std::vector<PlannedPart>> parts = PlanParts(*graph, *options);
  if (!parts.ok()) return Fail(parts.status(), ModelExit(parts.status()));
  ReportPage page;
  page.title = absl::StrCat("Kiln's report of ", flags.model);
  const absl::StatusOr<std::vector<Tensor>> inputs = MakeInputs(*graph, flags.inputs, flags.common);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  const absl::Status measured = MeasurePage(*graph, *inputs, *options, page);
  if (!measured.ok()) return Fail(measured, ModelExit(measured));
  for (const PlannedPart& part : *parts) {
    const size_t first = page.groups.boxes.size();
    AddGroups(part, page.groups);
    AddKernels(part, first, parts->size() == 1 ? page.launches : std::vector<ThunkTime>(), page);
  }
  AddFacts(*parts, *options, page);
  const std::string html = ReportHtml(page);
  const absl::Status written = WriteFileDurably(flags.output, html);
  if (!written.ok()) return Fail(written, kExitIo);
  if (flags.common.json) {
    PrintJson("report", flags.common,
              {{"file", flags.output},
               {"bytes", html.size()},
               {"groups", page.groups.boxes.size()},
               {"kernels", page.kernels.size()},
               {"launches", page.launches.size()}});
  } else {
    std::cout << "wrote \"" << flags.output << "\", " << Bytes(static_cast<int64_t>(html.size()))
              << "\n";
  }
  return kExitOk;
}

}  // namespace

void AddReport(Flags& command) {
  auto flags = std::make_shared<ReportFlags>();
  command.Option("MODEL", flags->model, "ONNX file, or .graph text").File().Required();
  command.Option("-o,--output", flags->output, "The page to write (r.html)").File().Required();
  command
      .Option("--input", flags->inputs,
              "n=@a.npy, n=random:SEED[:LO:HI], n=zeros or n=ones (repeatable)")
      .Repeatable();
  AddCommonFlags(command, flags->common);
  command.Runs([flags] { return Report(*flags); });
}

}  // namespace kiln
