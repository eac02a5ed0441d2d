// SPDX-License-Identifier: Apache-2.0
#include "schedule/choose.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"
#include "schedule/device.h"
#include "schedule/workspace.h"

namespace kiln {
namespace {

// Of templates that accept the kernel, each schedule once, in the order of the table.
std::vector<Schedule> Offers(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  std::vector<Schedule> offers;
  for (const Template* of : ModelOf(machine.target).templates()) {
    if (!of->Accepts(kernel)) continue;
    std::unordered_set<std::string> texts;  // schedules of different templates differ
    for (Schedule& schedule : of->candidates(kernel, sizes, machine))
      if (texts.insert(schedule.ToString()).second) offers.push_back(std::move(schedule));
  }
  return offers;
}

double NsOf(const Price& price) { return price.ns + price.idle_ns; }

void KeepWithinWorkspace(const Kernel& kernel, const std::vector<std::vector<int64_t>>& at,
                         int64_t limit, std::vector<Candidate>& candidates) {
  const auto bytes = [&](const Candidate& candidate) {
    double most = 0;
    for (const std::vector<int64_t>& extents : at)
      most = std::max(most, WorkspaceBytes(kernel, extents, candidate.schedule));
    return most;
  };
  const auto least =
      std::min_element(candidates.begin(), candidates.end(),
                       [&](const Candidate& a, const Candidate& b) { return bytes(a) < bytes(b); });
  if (least == candidates.end()) return;
  const Candidate smallest = *least;
  std::erase_if(candidates, [&](const Candidate& candidate) {
    return bytes(candidate) > static_cast<double>(limit);
  });
  if (candidates.empty()) candidates.push_back(smallest);
}

}  // namespace

Decision AcceptsKernel(const Kernel& kernel, Target target) {
  std::string reasons;
  for (const Template* of : ModelOf(target).templates()) {
    const Decision accepted = of->Accepts(kernel);
    if (accepted) return accepted;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", of->name, ": ", accepted.reason());
  }
  return Decision::No(reasons);
}

std::vector<std::vector<int64_t>> RepresentativeExtents(const SizeClass& sizes,
                                                        std::span<const int64_t> open) {
  std::vector<std::vector<int64_t>> all;
  for (const int64_t extent : open) {
    std::vector<int64_t> extents = sizes.at_most;
    for (size_t d = 0; d < extents.size(); ++d)
      if (!sizes.IsExtent(d)) extents[d] = std::min(extent, sizes.at_most[d]);
    if (std::find(all.begin(), all.end(), extents) == all.end()) all.push_back(std::move(extents));
  }
  return all;
}

std::vector<Candidate> CandidatesFor(const Kernel& kernel, const SizeClass& sizes,
                                     const Machine& machine, int64_t workspace_limit) {
  const std::vector<std::vector<int64_t>> at =
      RepresentativeExtents(sizes, ModelOf(machine.target).open_extents);
  std::vector<Candidate> candidates;
  for (Schedule& schedule : Offers(kernel, sizes, machine)) {
    constexpr double kLeastNs = 1e-3;  // correctness: it has a logarithm
    double log_ns = 0;
    for (const std::vector<int64_t>& extents : at)
      log_ns += std::log(std::max(kLeastNs, NsOf(PriceOf(kernel, extents, machine, schedule))));
    candidates.push_back({std::move(schedule), std::exp(log_ns / static_cast<double>(at.size()))});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.ns < b.ns; });
  if (workspace_limit > 0) KeepWithinWorkspace(kernel, at, workspace_limit, candidates);
  return candidates;
}

Schedule ChooseSchedule(const Kernel& kernel, const SizeClass& sizes, const Machine& machine,
                        int64_t workspace_limit) {
  return CandidatesFor(kernel, sizes, machine, workspace_limit).front().schedule;
}

std::vector<SizeClass> SizeClassesFor(const Kernel& kernel, const SizeClass& known) {
  SizeClass widest = WidestReduced(kernel, known);
  SizeClass usual = widest;
  usual.open.resize(usual.at_most.size());
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) {
      const auto d = static_cast<size_t>(dim);
      constexpr int64_t kOuterUsual = kOuterReduceBlock * kOuterReduceBlock * kOuterReduceBlock;
      const int64_t most = dim == kernel.innermost() ? kReduceBlock : kOuterUsual;
      if (known.IsExtent(d) || usual.at_most[d] <= most) continue;
      usual.at_most[d] = most;
      usual.open[d] = true;
    }
  }
  if (usual.at_most == widest.at_most) return {widest};
  return {usual, widest};
}

Price PriceOf(const Kernel& kernel, std::span<const int64_t> extents, const Machine& machine) {
  Price least;
  bool first = true;
  for (const Schedule& schedule : Offers(kernel, {{extents.begin(), extents.end()}}, machine)) {
    const Price price = PriceOf(kernel, extents, machine, schedule);
    if (first || NsOf(price) < NsOf(least)) least = price;
    first = false;
  }
  return least;
}

}  // namespace kiln
