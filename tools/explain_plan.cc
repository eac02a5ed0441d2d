// SPDX-License-Identifier: Apache-2.0
#include "tools/explain_plan.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "exec/support/subdomains.h"
#include "fusion/lower.h"
#include "fusion/predict.h"

namespace kiln {
namespace {

constexpr int kMeasuredRuns = 20;

bool IsLaunch(const Group& group) {
  return group.kind == Group::Kind::kKernel || group.kind == Group::Kind::kLibrary;
}

// Of the launches, in the order in which they run.
absl::StatusOr<std::vector<double>> LeastTimes(Context& context) {
  std::vector<double> least;
  for (int run = 0; run < kMeasuredRuns; ++run) {
    KILN_ASSIGN_OR_RETURN(const std::vector<ThunkTime> times, context.Profile());
    std::vector<double> us;
    for (const ThunkTime& time : times) {
      if (time.kind == "kernel" || time.kind == "library") us.push_back(time.ms * 1000);
    }
    if (least.empty()) least = us;
    for (size_t i = 0; i < us.size(); ++i) least[i] = std::min(least[i], us[i]);
  }
  return least;
}

std::optional<std::vector<int64_t>> Constants(const std::vector<Dim>& dims) {
  std::vector<int64_t> values;
  for (const Dim& dim : dims) {
    if (!dim.constant()) return std::nullopt;
    values.push_back(*dim.constant());
  }
  return values;
}

// With operands that are dense; a plan knows how they really lie.
std::string FormOfLarge(const Graph& graph, const Group& group) {
  if (group.kind != Group::Kind::kKernel) return "";
  const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph, group);
  if (!lowered.ok()) return "";
  const std::optional<std::vector<int64_t>> extents = Constants(lowered->dims);
  if (!extents) return "";
  const Kernel& kernel = lowered->canonical.kernel;
  std::deque<std::vector<int64_t>> kept;
  std::vector<OperandShape> operands;
  const auto add = [&](const auto& operand) {
    std::vector<int64_t>& shape = kept.emplace_back();
    for (const int32_t dim : operand.dims) shape.push_back((*extents)[static_cast<size_t>(dim)]);
    const std::vector<int64_t>& strides = kept.emplace_back(DenseStrides(shape));
    operands.push_back({shape, strides, static_cast<int64_t>(SizeOf(operand.type))});
  };
  for (const KernelInput& input : kernel.inputs) add(input);
  for (const KernelOutput& output : kernel.outputs) add(output);
  if (FitsAtOnce(kernel, *extents, operands)) return "";
  const std::optional<PartitionedLaunch> pieces = PlanPieces(kernel, *extents, operands);
  return pieces ? absl::StrCat(pieces->subdomains, " pieces") : "VM, 64-bit indices";
}

}  // namespace

absl::StatusOr<std::vector<PlannedPart>> PlanParts(const Graph& graph,
                                                   const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(std::vector<Compiled> compiled, CompileParts(graph, options));
  const Machine& machine = MachineOf(options);
  std::vector<PlannedPart> parts;
  for (Compiled& one : compiled) {
    PlannedPart& part = parts.emplace_back();
    part.compiled = std::move(one);
    part.traffic = BytesAccessedOf(part.compiled.graph, part.compiled.grouping);
    KILN_ASSIGN_OR_RETURN(part.predicted_us,
                          PredictNs(part.compiled.graph, part.compiled.grouping, machine));
    for (double& us : part.predicted_us) us /= 1000;
    for (const Group& group : part.compiled.grouping.groups)
      part.large.push_back(FormOfLarge(part.compiled.graph, group));
  }
  return parts;
}

PlanSums SumOf(const std::vector<PlannedPart>& parts) {
  PlanSums sums;
  for (const PlannedPart& part : parts) {
    sums.launches += part.traffic.launches;
    sums.walked += part.traffic.walked;
    sums.unfused += part.traffic.unfused;
    sums.lower_bound += part.traffic.lower_bound;
    sums.predicted_us += std::accumulate(part.predicted_us.begin(), part.predicted_us.end(), 0.0);
  }
  return sums;
}

absl::Status MeasureParts(const Graph& graph, const std::vector<Tensor>& inputs,
                          const CompileOptions& options, std::vector<PlannedPart>& parts) {
  if (parts.size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("--measure: the model falls into ", parts.size(), " parts; it measures one"));
  }
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  Context context = model.NewContext();
  for (size_t k = 0; k < inputs.size(); ++k)
    KILN_RETURN_IF_ERROR(context.Bind(graph.value(graph.inputs()[k]).name, inputs[k]));
  KILN_RETURN_IF_ERROR(context.Run());
  KILN_ASSIGN_OR_RETURN(const std::vector<double> least, LeastTimes(context));
  const std::vector<Group>& groups = parts[0].compiled.grouping.groups;
  if (static_cast<size_t>(std::count_if(groups.begin(), groups.end(), IsLaunch)) != least.size()) {
    return absl::UnimplementedError(
        "--measure: with these inputs the model has other groups than shown; give --shape or --dim "
        "so that it has not");
  }
  size_t next = 0;
  for (const Group& group : groups)
    parts[0].measured_us.push_back(IsLaunch(group) ? least[next++] : 0);
  return absl::OkStatus();
}

}  // namespace kiln
