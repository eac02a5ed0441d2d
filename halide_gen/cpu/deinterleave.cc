// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels of inputs that have a dim of known tiny extent last, and the innermost before
// it (channels of an image: "stride_dim", "stride_is"): vectors run along the innermost dim. Where
// that is long, a step along it makes those of all channels, which lie in the same lines
// ("together"); else lines that are written follow each other. Example, of in0[a, x, b]:
//   for a, for vectors of x, for b: out0[a, b, x]     together
//   for a, for b, for vectors of x: out0[a, b, x]
#include <cstddef>

#include "halide_gen/cpu/nests.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

class ChannelNest {
 public:
  ChannelNest(const Kernel& kernel, const Deinterleave& schedule, bool twice,
              const Operands& operands)
      : kernel_(kernel),
        schedule_(schedule),
        twice_(twice),
        operands_(operands),
        inner_(static_cast<size_t>(kernel.innermost())),
        channel_(static_cast<size_t>(schedule.channel)),
        lanes_(static_cast<int>(schedule.step)) {
    for (size_t d = 0; d <= inner_; ++d) vars_.emplace_back("pdim" + std::to_string(d) + "v");
  }

  // Masks take strided loads apart into elements: the last vector of a row begins earlier instead,
  // where no input is lost when an element is made twice.
  OutputNest Build(const std::vector<size_t>& group) {
    const auto channels = static_cast<int>(schedule_.channels);
    Func out = DefineOverDims(kernel_, operands_, group, vars_);
    const Expr known = operands_.extents[channel_] == channels;
    Halide::Stage strided =
        out.specialize(twice_ ? known && operands_.extents[inner_] >= lanes_ : known);
    Loops(strided, twice_ ? TailStrategy::ShiftInwards : kGuard);
    if (schedule_.together) strided.unroll(vars_[channel_], channels, kGuard);
    strided.never_partition_all();
    Loops(out, kGuard);
    out.never_partition_all();
    return {out, group};
  }

 private:
  static constexpr TailStrategy kGuard = TailStrategy::GuardWithIf;

  // Of a Func or Stage. Long rows are cut, so that a few of them make tasks, too.
  template <typename Schedulable>
  void Loops(Schedulable& of, TailStrategy tail) const {
    const Var vector("pvector"), lane("plane"), step("pstep"), in_step("pinstep");
    const Var task("ptask"), inside("pinside");
    const int64_t grain = schedule_.task;
    const Expr per_step = lanes_ * Halide::max(1, operands_.extents[channel_]);
    const Expr vectors = (operands_.extents[inner_] + (lanes_ - 1)) / lanes_;
    const Expr most = PerTask(grain, per_step);
    of.split(vars_[inner_], vector, lane, lanes_, tail).vectorize(lane);
    of.split(vector, step, in_step, most, kGuard);
    if (schedule_.together) {
      of.reorder(lane, vars_[channel_], in_step, step);
    } else {
      of.reorder(lane, in_step, vars_[channel_], step);
    }
    std::vector<Var> outer = {step};
    Expr count = (vectors + most - 1) / most;
    for (size_t d = inner_; d-- > 0;) {
      if (d == channel_) continue;
      outer.push_back(vars_[d]);
      count = count * operands_.extents[d];
    }
    const Expr each = Halide::min(vectors, most) * per_step;
    of.split(Fused(of, outer), task, inside, PerTask(grain, each, count), kGuard).parallel(task);
  }

  const Kernel& kernel_;
  const Deinterleave& schedule_;
  const bool twice_;  // elements may be made twice
  const Operands& operands_;
  const size_t inner_, channel_;  // dims
  const int lanes_;
  std::vector<Var> vars_;  // of dims, outermost first
};

}  // namespace

std::vector<OutputNest> BuildDeinterleave(const Kernel& kernel, const Schedule& schedule,
                                          const Operands& operands) {
  const auto& deinterleave = schedule.As<Deinterleave>();
  const bool twice = schedule.in_place.empty();
  std::vector<OutputNest> nests;
  for (const std::vector<size_t>& group : GroupOutputs(kernel))
    nests.push_back(ChannelNest(kernel, deinterleave, twice, operands).Build(group));
  return nests;
}

}  // namespace kiln
