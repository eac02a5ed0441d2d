// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/device_scatter.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "schedule/sums.h"

namespace kiln {
namespace {

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes, const Machine&) {
  DeviceScatter scatter;
  const int64_t row = AddsRows(kernel) ? sizes.at_most[static_cast<size_t>(kernel.innermost())] : 1;
  scatter.columns = 1;
  while (scatter.columns < kBlockThreads && scatter.columns < row) scatter.columns *= 2;
  scatter.rows = scatter.columns < kWarp ? kWarp / scatter.columns : 1;
  return {Schedule(kDeviceScatter, scatter)};
}

}  // namespace

absl::Status DeviceScatter::CheckFor(const Kernel&) const {
  if (columns * rows <= kThreadsRange.most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("scatter: columns=", columns, " rows=", rows,
                                                 " are more than ", kThreadsRange.most,
                                                 " threads"));
}

const Template kDeviceScatter = {"scatter",           "sums at places that data choose, in order",
                                 AcceptsSums,         Candidates,
                                 Make<DeviceScatter>, /*adds=*/true};

}  // namespace kiln
