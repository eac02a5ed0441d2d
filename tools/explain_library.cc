// SPDX-License-Identifier: Apache-2.0
#include "tools/explain_library.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/model_source.h"
#include "exec/plan_info.h"
#include "nlohmann/json.hpp"
#include "tools/device_libraries.h"
#include "tools/exit_code.h"
#include "tools/inputs.h"
#include "tools/report.h"

namespace kiln {
namespace {

nlohmann::json CallToJson(const PlannedCall& call) {
  nlohmann::json considered = nlohmann::json::array();
  for (const library::Considered& c : call.considered)
    considered.push_back({{"implementation", c.implementation}, {"refusal", c.refusal}});
  return {{"nodes", call.nodes},       {"op", call.op},
          {"post_ops", call.post_ops}, {"considered", considered},
          {"code", call.description},  {"packed_bytes", call.packed_bytes}};
}

void PrintCalls(const std::vector<PlannedCall>& calls) {
  std::vector<std::vector<std::string>> rows = {
      {"call", "operator", "post-ops", "computed by", "code", "packed"}};
  for (const PlannedCall& call : calls) {
    rows.push_back({call.nodes, call.op, call.post_ops, call.considered.back().implementation,
                    call.description, call.packed_bytes == 0 ? "" : Bytes(call.packed_bytes)});
  }
  std::cout << Table(rows) << calls.size() << " library calls\n";
  for (const PlannedCall& call : calls) {
    for (const library::Considered& c : call.considered) {
      if (!c.refusal.empty())
        std::cout << call.nodes << ": not " << c.implementation << ": " << c.refusal << "\n";
    }
  }
}

}  // namespace

int ExplainLibrary(const std::string& path, const std::vector<std::string>& specs,
                   const CommonOptions& common) {
  absl::StatusOr<CompileOptions> options = ToCompileOptions(common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const absl::StatusOr<ModelSource> model = ModelSource::Read(path, ImportOptionsOf(*options));
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  const absl::StatusOr<std::vector<Tensor>> inputs = MakeInputs(model->graph(), specs, common);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  absl::StatusOr<Graph> graph = model->GraphFor(*inputs);
  if (!graph.ok()) return Fail(graph.status(), ModelExit(graph.status()));

  std::vector<PlannedCall> calls;
  options->compile_mode = CompileMode::kNever;
  options->on_plan = [&](const PlanInfo& plan) {
    calls.insert(calls.end(), plan.library_calls.begin(), plan.library_calls.end());
  };
  const absl::Status ran = RunGraph(*std::move(graph), *inputs, *options).status();
  if (!ran.ok()) return Fail(ran, ModelExit(ran));
  const std::vector<DeviceLibraryInfo> there = DeviceLibraries(*options);
  if (!common.json) {
    PrintCalls(calls);
    for (const DeviceLibraryInfo& one : there) std::cout << "device: " << ToText(one) << "\n";
    return kExitOk;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const PlannedCall& call : calls) list.push_back(CallToJson(call));
  PrintJson("explain", common, {{"library", list}, {"device_libraries", ToJson(there)}});
  return kExitOk;
}

}  // namespace kiln
