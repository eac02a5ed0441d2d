// SPDX-License-Identifier: Apache-2.0
#include "graph/training/losses.h"

#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/ops/nodes.h"

namespace kiln::training {
namespace {

using ops::To;

Attrs Over(std::vector<int64_t> axes, bool keepdims) {
  return {{"axes", std::move(axes)}, {"keepdims", int64_t{keepdims}}};
}

ValueId OverAll(GraphBuilder& b, const char* op, ValueId x) {
  return b.Op(op, {x}, {{"keepdims", int64_t{0}}});
}

ValueId Reduced(GraphBuilder& b, ValueId loss, LossReduction reduction, DType stored) {
  if (reduction == LossReduction::kSum) loss = OverAll(b, "reduce_sum", loss);
  if (reduction == LossReduction::kMean) loss = OverAll(b, "reduce_mean", loss);
  return To(b, loss, stored);
}

// The cross-entropy of one set of logits, step by step.
class Entropy {
 public:
  Entropy(GraphBuilder& b, ValueId logits, const CrossEntropyOptions& options)
      : b_(b), options_(options), stored_(b.type(logits)), type_(ComputeType(stored_)) {
    const ValueId x = To(b, logits, type_);
    const Shape shape = b.shape(logits);
    rank_ = shape.size();
    if (rank_ > 1) classes_ = shape[1];
    z_ = b.Op("sub", {x, b.Op("reduce_max", {x}, Over({1}, true))});
    log_sum_ = b.Op("log", {Sum(b.Op("exp", {z_}))});
    if (options.weight.valid()) weight_ = ops::OverChannels(b, To(b, options.weight, type_), rank_);
  }

  ValueId OfClasses(ValueId target) {
    target = To(b_, target, DType::kI64);
    const ValueId place = b_.Op("unsqueeze", {target}, {{"axes", std::vector<int64_t>{1}}});
    const ValueId is_target = b_.Op("equal", {Coordinates(), place});
    // The weight of each place, and its loss.
    ValueId weight = weight_.valid() ? Sum(Where(is_target, weight_)) : ValueId{};
    ValueId loss = b_.Op("sub", {log_sum_, Sum(Where(is_target, z_))});
    if (weight.valid()) loss = Mul(loss, weight);
    loss = Smoothed(loss);
    if (options_.ignore_index) {
      const ValueId ignored = b_.Op("equal", {target, Number(DType::kI64, *options_.ignore_index)});
      const ValueId counts = weight.valid() ? weight : Number(type_, 1);
      weight = b_.Op("where", {ignored, Number(type_, 0), counts});
      loss = b_.Op("where", {ignored, Number(type_, 0), loss});
    }
    if (options_.reduction != LossReduction::kMean || !weight.valid())
      return Reduced(b_, loss, options_.reduction, stored_);
    const ValueId sum = OverAll(b_, "reduce_sum", loss), all = OverAll(b_, "reduce_sum", weight);
    const ValueId none = b_.Op("equal", {all, Number(type_, 0)});
    const ValueId share = b_.Op("where", {none, Number(type_, 1), all});
    return To(b_, b_.Op("div", {sum, share}), stored_);
  }

  // sum(w q (log_sum - z)) for the smoothed target q.
  ValueId OfProbabilities(ValueId target) {
    ValueId q = To(b_, target, type_);
    const double smoothing = options_.label_smoothing;
    if (smoothing != 0) q = b_.Op("add", {Mul(q, Number(type_, 1 - smoothing)), Share(smoothing)});
    if (weight_.valid()) q = Mul(q, weight_);
    const ValueId loss = b_.Op("sub", {Mul(log_sum_, Sum(q)), Sum(Mul(q, z_))});
    return Reduced(b_, loss, options_.reduction, stored_);
  }

 private:
  ValueId Number(DType type, double value) const { return b_.Scalar(type, value); }
  ValueId Mul(ValueId x, ValueId y) const { return b_.Op("mul", {x, y}); }
  ValueId Sum(ValueId x) const { return b_.Op("reduce_sum", {x}, Over({1}, false)); }
  ValueId Where(ValueId condition, ValueId x) const {
    return b_.Op("where", {condition, x, Number(type_, 0)});
  }
  // The classes' numbers along axis 1.
  ValueId Coordinates() const {
    Shape shape(rank_, 1);
    if (rank_ > 1) shape[1] = classes_;
    return b_.Op("iota", {}, {{"shape", DimsValue(shape)}, {"axis", int64_t{1}}});
  }
  // share / C
  ValueId Share(double share) const {
    if (const auto classes = classes_.constant())
      return Number(type_, share / static_cast<double>(*classes));
    const ValueId extent = b_.Op("shape", {z_}, {{"start", int64_t{1}}, {"end", int64_t{2}}});
    const ValueId count = b_.Op("reshape", {extent}, {{"shape", std::vector<int64_t>()}});
    return b_.Op("div", {Number(type_, share), To(b_, count, type_)});
  }
  // (1 - e) loss + e / C sum(w (log_sum - z))
  ValueId Smoothed(ValueId loss) const {
    const double share = options_.label_smoothing;
    if (share == 0) return loss;
    const ValueId all = b_.Op("unsqueeze", {log_sum_}, {{"axes", std::vector<int64_t>{1}}});
    ValueId each = b_.Op("sub", {all, z_});
    if (weight_.valid()) each = Mul(each, weight_);
    return b_.Op("add", {Mul(loss, Number(type_, 1 - share)), Mul(Sum(each), Share(share))});
  }

  GraphBuilder& b_;
  const CrossEntropyOptions& options_;
  const DType stored_, type_;
  size_t rank_ = 0;
  Dim classes_ = 1;
  ValueId z_, log_sum_, weight_;
};

}  // namespace

ValueId CrossEntropy(GraphBuilder& b, ValueId logits, ValueId target,
                     const CrossEntropyOptions& options) {
  if (!b.status().ok()) return {};
  Entropy entropy(b, logits, options);
  if (!b.status().ok()) return {};
  return IsFloat(b.type(target)) ? entropy.OfProbabilities(target) : entropy.OfClasses(target);
}

ValueId MeanSquaredError(GraphBuilder& b, ValueId x, ValueId y, LossReduction reduction) {
  if (!b.status().ok()) return {};
  const DType stored = b.type(x), type = ComputeType(stored);
  const ValueId d = b.Op("sub", {To(b, x, type), To(b, y, type)});
  return Reduced(b, b.Op("mul", {d, d}), reduction, stored);
}

ValueId BinaryCrossEntropy(GraphBuilder& b, ValueId logits, ValueId target, ValueId positive_weight,
                           LossReduction reduction) {
  if (!b.status().ok()) return {};
  const DType stored = b.type(logits), type = ComputeType(stored);
  const ValueId x = To(b, logits, type), y = To(b, target, type), one = b.Scalar(type, 1);
  ValueId missed = b.Op("softplus", {b.Op("neg", {x})});
  if (positive_weight.valid()) {
    const ValueId more = b.Op("sub", {To(b, positive_weight, type), one});
    missed = b.Op("mul", {b.Op("add", {one, b.Op("mul", {more, y})}), missed});
  }
  const ValueId loss = b.Op("add", {b.Op("mul", {b.Op("sub", {one, y}), x}), missed});
  return Reduced(b, loss, reduction, stored);
}

ValueId Huber(GraphBuilder& b, ValueId x, ValueId y, double delta, LossReduction reduction) {
  if (!b.status().ok()) return {};
  const DType stored = b.type(x), type = ComputeType(stored);
  const ValueId d = b.Op("sub", {To(b, x, type), To(b, y, type)});
  const ValueId c = b.Op("clip", {d, b.Scalar(type, -delta), b.Scalar(type, delta)});
  const ValueId rest = b.Op("sub", {d, b.Op("mul", {c, b.Scalar(type, 0.5)})});
  return Reduced(b, b.Op("mul", {c, rest}), reduction, stored);
}

}  // namespace kiln::training
