// SPDX-License-Identifier: Apache-2.0
#include "graph/training/optimizer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/ops/nodes.h"

namespace kiln::training {
namespace {

using ops::To;

// Formulas on values of one type, with numbers of it.
class Formula {
 public:
  Formula(GraphBuilder& b, DType type) : b_(b), type_(type) {}

  ValueId Number(double value) const { return b_.Scalar(type_, value); }
  ValueId Add(ValueId x, ValueId y) const { return b_.Op("add", {x, y}); }
  ValueId Sub(ValueId x, ValueId y) const { return b_.Op("sub", {x, y}); }
  ValueId Mul(ValueId x, ValueId y) const { return b_.Op("mul", {x, y}); }
  ValueId Mul(ValueId x, double y) const { return y == 1 ? x : Mul(x, Number(y)); }
  ValueId Div(ValueId x, ValueId y) const { return b_.Op("div", {x, y}); }
  ValueId Sqrt(ValueId x) const { return b_.Op("sqrt", {x}); }
  // x + factor y
  ValueId AddTimes(ValueId x, ValueId y, double factor) const {
    return factor == 0 ? x : Add(x, Mul(y, factor));
  }
  // x + weight (y - x)
  ValueId Lerp(ValueId x, ValueId y, double weight) const { return Add(x, Mul(Sub(y, x), weight)); }

 protected:
  GraphBuilder& b_;
  const DType type_;
};

// Numbers that all elements share, in f64.
class Shared : public Formula {
 public:
  Shared(GraphBuilder& b, ValueId lr, ValueId t)
      : Formula(b, DType::kF64), lr_(One(lr)), t_(One(t)) {}

  ValueId lr() const { return lr_; }
  ValueId t() const { return t_; }
  // 1 - beta^t; 1 where t is 0
  ValueId Correction(double beta) const {
    const ValueId left = Sub(Number(1), b_.Op("pow", {Number(beta), t_}));
    return b_.Op("where", {b_.Op("greater", {t_, Number(0)}), left, Number(1)});
  }
  // `first` in the first update, `later` from then on.
  ValueId Either(double first, double later) const {
    return b_.Op("where", {b_.Op("equal", {t_, Number(1)}), Number(first), Number(later)});
  }
  // 1 - lr decay
  ValueId Kept(double decay) const { return Sub(Number(1), Mul(lr_, decay)); }

 private:
  ValueId One(ValueId x) const {
    const Attrs none = {{"shape", std::vector<int64_t>()}};
    if (b_.status().ok() && !b_.shape(x).empty()) x = b_.Op("reshape", {x}, none);
    return To(b_, x, DType::kF64);
  }

  const ValueId lr_, t_;
};

// One update, in the type that it computes in.
class Step : public Formula {
 public:
  Step(GraphBuilder& b, DType type, ValueId p, ValueId g, const std::vector<ValueId>& moments,
       const Shared& shared)
      : Formula(b, type), shared_(shared), p_(To(b, p, type)), g_(To(b, g, type)) {
    for (const ValueId moment : moments) moments_.push_back(To(b, moment, type));
  }

  Updated operator()(const Sgd& o) {
    Decay(o.weight_decay);
    if (o.momentum == 0) return Moved(Mul(Rounded(shared_.lr()), g_), {});
    const ValueId add =
        o.dampening == 0 ? g_ : Mul(g_, Rounded(shared_.Either(1, 1 - o.dampening)));
    const ValueId buffer = Add(Mul(moments_[0], o.momentum), add);
    const ValueId direction = o.nesterov ? AddTimes(g_, buffer, o.momentum) : buffer;
    return Moved(Mul(Rounded(shared_.lr()), direction), {buffer});
  }

  Updated operator()(const Adam& o) {
    Decay(o.weight_decay);
    return AdamStep(o);
  }

  Updated operator()(const AdamW& o) {
    Shrink(o.weight_decay);
    return AdamStep({.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon});
  }

  Updated operator()(const Adagrad& o) {
    Decay(o.weight_decay);
    const ValueId sum = Add(moments_[0], Mul(g_, g_));
    ValueId lr = shared_.lr();
    if (o.lr_decay != 0) {
      const ValueId before = shared_.Sub(shared_.t(), shared_.Number(1));
      lr = shared_.Div(lr, shared_.AddTimes(shared_.Number(1), before, o.lr_decay));
    }
    const ValueId root = Add(Sqrt(sum), Number(o.epsilon));
    return Moved(Div(Mul(Rounded(lr), g_), root), {sum});
  }

  Updated operator()(const RmsProp& o) {
    Decay(o.weight_decay);
    const ValueId square = AddTimes(Mul(moments_[0], o.alpha), Mul(g_, g_), 1 - o.alpha);
    std::vector<ValueId> next = {square};
    ValueId variance = square;
    if (o.centered) {
      const ValueId mean = Lerp(moments_[1], g_, 1 - o.alpha);
      next.push_back(mean);
      variance = Sub(square, Mul(mean, mean));
    }
    ValueId direction = Div(g_, Add(Sqrt(variance), Number(o.epsilon)));
    if (o.momentum != 0) {
      direction = Add(Mul(moments_[next.size()], o.momentum), direction);
      next.push_back(direction);
    }
    return Moved(Mul(Rounded(shared_.lr()), direction), std::move(next));
  }

  Updated operator()(const Lion& o) {
    Shrink(o.weight_decay);
    const ValueId mixed = AddTimes(Mul(moments_[0], o.beta1), g_, 1 - o.beta1);
    const ValueId m = AddTimes(Mul(moments_[0], o.beta2), g_, 1 - o.beta2);
    return Moved(Mul(Rounded(shared_.lr()), b_.Op("sign", {mixed})), {m});
  }

 private:
  ValueId Rounded(ValueId shared) const { return To(b_, shared, type_); }
  void Decay(double factor) { g_ = AddTimes(g_, p_, factor); }
  void Shrink(double factor) {
    if (factor != 0) p_ = Mul(p_, Rounded(shared_.Kept(factor)));
  }
  Updated Moved(ValueId by, std::vector<ValueId> moments) const {
    return {Sub(p_, by), std::move(moments)};
  }

  Updated AdamStep(const Adam& o) {
    const ValueId m = Lerp(moments_[0], g_, 1 - o.beta1);
    const ValueId v = AddTimes(Mul(moments_[1], o.beta2), Mul(g_, g_), 1 - o.beta2);
    ValueId size = shared_.Div(shared_.lr(), shared_.Correction(o.beta1));
    const ValueId correction = shared_.Sqrt(shared_.Correction(o.beta2));
    ValueId root = Sqrt(v);
    if (o.epsilon_hat) {
      size = shared_.Mul(size, correction);
    } else {
      root = Mul(root, Rounded(shared_.Div(shared_.Number(1), correction)));
    }
    return Moved(Div(Mul(Rounded(size), m), Add(root, Number(o.epsilon))), {m, v});
  }

  const Shared& shared_;
  ValueId p_, g_;
  std::vector<ValueId> moments_;
};

struct Range {
  const char* name;
  double value;
  bool below_one;  // [0, 1), else [0, inf)
};

absl::Status CheckRanges(std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) {
    if (range.value >= 0 && range.value < (range.below_one ? 1 : HUGE_VAL)) continue;
    return absl::InvalidArgumentError(absl::StrCat("optimizer: ", range.name, " is ", range.value,
                                                   ", expected 0 to below ",
                                                   range.below_one ? "1" : "infinity"));
  }
  return absl::OkStatus();
}

absl::Status Check(const Sgd& o) {
  KILN_RETURN_IF_ERROR(
      CheckRanges({{"momentum", o.momentum, false}, {"weight_decay", o.weight_decay, false}}));
  if (!std::isfinite(o.dampening))
    return absl::InvalidArgumentError(absl::StrCat("optimizer: dampening is ", o.dampening));
  if (o.nesterov && o.momentum == 0)
    return absl::InvalidArgumentError("optimizer: nesterov with momentum 0; give a momentum");
  return absl::OkStatus();
}

template <typename AdamOrAdamW>
absl::Status CheckAdam(const AdamOrAdamW& o) {
  return CheckRanges({{"beta1", o.beta1, true},
                      {"beta2", o.beta2, true},
                      {"epsilon", o.epsilon, false},
                      {"weight_decay", o.weight_decay, false}});
}
absl::Status Check(const Adam& o) { return CheckAdam(o); }
absl::Status Check(const AdamW& o) { return CheckAdam(o); }

absl::Status Check(const Adagrad& o) {
  return CheckRanges({{"lr_decay", o.lr_decay, false},
                      {"weight_decay", o.weight_decay, false},
                      {"epsilon", o.epsilon, false}});
}

absl::Status Check(const RmsProp& o) {
  return CheckRanges({{"alpha", o.alpha, true},
                      {"epsilon", o.epsilon, false},
                      {"weight_decay", o.weight_decay, false},
                      {"momentum", o.momentum, false}});
}

absl::Status Check(const Lion& o) {
  return CheckRanges({{"beta1", o.beta1, true},
                      {"beta2", o.beta2, true},
                      {"weight_decay", o.weight_decay, false}});
}

using Names = std::vector<std::string>;

Names MomentsOf(const Sgd& o) { return o.momentum == 0 ? Names() : Names{"momentum_buffer"}; }
Names MomentsOf(const Adam&) { return {"exp_avg", "exp_avg_sq"}; }
Names MomentsOf(const AdamW&) { return {"exp_avg", "exp_avg_sq"}; }
Names MomentsOf(const Adagrad&) { return {"sum"}; }
Names MomentsOf(const Lion&) { return {"exp_avg"}; }

Names MomentsOf(const RmsProp& o) {
  Names names = {"square_avg"};
  if (o.centered) names.emplace_back("grad_avg");
  if (o.momentum != 0) names.emplace_back("momentum_buffer");
  return names;
}

}  // namespace

absl::Status CheckOptimizer(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return Check(o); }, optimizer);
}

std::vector<std::string> MomentNames(const Optimizer& optimizer) {
  return std::visit([](const auto& o) { return MomentsOf(o); }, optimizer);
}

absl::StatusOr<Updated> Update(GraphBuilder& b, const Optimizer& optimizer, ValueId parameter,
                               ValueId gradient, const std::vector<ValueId>& moments, ValueId lr,
                               ValueId t) {
  KILN_RETURN_IF_ERROR(b.status());
  KILN_RETURN_IF_ERROR(CheckOptimizer(optimizer));
  const size_t wanted = MomentNames(optimizer).size();
  if (moments.size() != wanted)
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer: has ", moments.size(), " moments, expected ", wanted));
  const DType stored = b.type(parameter);
  const Shared shared(b, lr, t);
  Updated next =
      std::visit(Step(b, ComputeType(stored), parameter, gradient, moments, shared), optimizer);
  next.parameter = To(b, next.parameter, stored);
  for (size_t k = 0; k < wanted; ++k) next.moments[k] = To(b, next.moments[k], b.type(moments[k]));
  KILN_RETURN_IF_ERROR(b.status());
  return next;
}

Clipped ClipByGlobalNorm(GraphBuilder& b, const std::vector<ValueId>& gradients, double max_norm) {
  Clipped clipped;
  if (!b.status().ok() || gradients.empty()) return clipped;
  const DType type = ComputeType(b.type(gradients[0]));
  const Formula f(b, type);
  ValueId sum;
  for (const ValueId gradient : gradients) {
    const ValueId wide = To(b, gradient, type);
    const ValueId squares = b.Op("reduce_sum", {f.Mul(wide, wide)}, {{"keepdims", int64_t{0}}});
    sum = sum.valid() ? f.Add(sum, squares) : squares;
  }
  clipped.norm = f.Sqrt(sum);
  const ValueId ratio = f.Div(f.Number(max_norm), f.Add(clipped.norm, f.Number(1e-6)));
  const ValueId factor = b.Op("min", {ratio, f.Number(1)});
  for (const ValueId gradient : gradients) {
    const ValueId scaled = f.Mul(To(b, gradient, type), factor);
    clipped.gradients.push_back(To(b, scaled, b.status().ok() ? b.type(gradient) : type));
  }
  return clipped;
}

ValueId ClipByValue(GraphBuilder& b, ValueId gradient, double limit) {
  if (!b.status().ok()) return {};
  const DType type = b.type(gradient);
  return b.Op("clip", {gradient, b.Scalar(type, -limit), b.Scalar(type, limit)});
}

}  // namespace kiln::training
