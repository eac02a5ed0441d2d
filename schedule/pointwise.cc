// SPDX-License-Identifier: Apache-2.0
// "pointwise": no reductions; one loop nest over all dims makes every output, maps are computed
// where they are read.
//
// The dims but the innermost are run as one (rows). The innermost is vectorised; without rows it is
// cut into tasks of `grain` elements, else tasks are so many rows that they have about as many
// elements.
#include <algorithm>

#include "kiln/schedule/facts.h"
#include "kiln/schedule/schedulers.h"

namespace kiln {
namespace {

// Maps read at other elements than the reader's own are computed anew for each such read, and so
// are those they read.
constexpr int64_t kMostCopies = 32;

int64_t Copies(const Kernel& kernel) {
  const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  const size_t stages = kernel.stages.size();
  std::vector<int64_t> copies(exprs.size(), 1);
  int64_t most = 1;
  for (size_t reader = exprs.size(); reader-- > 0;) {
    for (const ExprNode& node : exprs[reader]->nodes()) {
      if (node.op != ScalarOp::kRead || node.source != ReadSource::kStage) continue;
      const auto stage = static_cast<size_t>(node.ref);
      if (stage >= stages || IsIdentityRead(node, kernel.stages[stage].dims)) continue;
      copies[stage] = std::min(copies[stage] + copies[reader], kMostCopies + 1);
      most = std::max(most, copies[stage]);
    }
  }
  return most;
}

Decision Accepts(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == Stage::Kind::kReduce) return Decision::No("it has a reduction");
  }
  if (kernel.num_iterated() == 0) return Decision::No("it has no dim to loop over");
  if (!OutputsInOrder(kernel, /*rows=*/false)) {
    return Decision::No("an output is not dense over all dims in their order");
  }
  if (Copies(kernel) > kMostCopies) {
    return Decision::No(
        "stages read each other at too many other elements to be computed in place");
  }
  return Decision::Yes();
}

Params Choose(const Kernel& kernel, const SizeClass&, const MachineProfile& profile) {
  Params params{.scheduler = "pointwise", .values = {}, .in_place = ElementwisePairs(kernel)};
  params.values = {{"grain", profile.parallel_grain}, {"lanes", LanesFor(kernel, profile, 4)}};
  return params;
}

std::vector<SizeClass> Classes(const Kernel&, const SizeClass& known) { return {known}; }

}  // namespace

const Scheduler kPointwiseScheduler = {
    .name = "pointwise",
    .doc = "element-wise kernels, vectorised over the innermost dim",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
