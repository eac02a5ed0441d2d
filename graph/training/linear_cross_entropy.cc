// SPDX-License-Identifier: Apache-2.0
#include "graph/training/linear_cross_entropy.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/ops/nodes.h"

namespace kiln::training {
namespace {

using ops::To;

struct Chunk {
  int64_t begin = 0, end = 0;  // classes
  ValueId weight;              // [end - begin, h]
};

class Head {
 public:
  Head(GraphBuilder& b, ValueId hidden, ValueId weight, ValueId target,
       std::optional<int64_t> ignore_index)
      : b_(b),
        hidden_(hidden),
        weight_(weight),
        stored_(b.type(hidden)),
        type_(ComputeType(stored_)),
        places_(b.shape(hidden)[0]),
        target_(To(b, target, DType::kI64)) {
    if (ignore_index)
      ignored_ = Column(
          b.Op("equal", {target_, b.Scalar(DType::kI64, static_cast<double>(*ignore_index))}));
  }

  void Split(int64_t classes, int64_t size) {
    for (int64_t begin = 0; begin < classes; begin += size) {
      const int64_t end = std::min(classes, begin + size);
      const std::vector<int64_t> from = {begin}, to = {end};
      chunks_.push_back({begin, end, b_.Op("slice", {weight_}, {{"starts", from}, {"ends", to}})});
    }
  }

  LinearCrossEntropyStep Build() {
    ValueId most, sum, hit;  // [n, 1] over the chunks so far
    for (const Chunk& chunk : chunks_) {
      const ValueId z = To(b_, Product(hidden_, chunk.weight, false, true), type_);
      const ValueId own_most = b_.Op("reduce_max", {z}, AlongClasses());
      const ValueId own_sum = Sum(Exp(Sub(z, own_most)));
      const ValueId own_hit = Sum(Where(IsTarget(chunk, 1), z, Number(0)));
      if (!most.valid()) {
        most = own_most, sum = own_sum, hit = own_hit;
        continue;
      }
      const ValueId both = b_.Op("max", {most, own_most});
      sum = Add(Mul(sum, Exp(Sub(most, both))), Mul(own_sum, Exp(Sub(own_most, both))));
      most = both;
      hit = Add(hit, own_hit);
    }
    const ValueId log_sum = Add(most, b_.Op("log", {sum}));
    const ValueId loss = Counted(Sub(log_sum, hit));
    const ValueId count = b_.Op("max", {All(Counted(Ones())), Number(1)});
    const ValueId share = b_.Op("div", {Number(1), count});
    LinearCrossEntropyStep step = Gradients(log_sum, Mul(Counted(Ones()), share));
    step.loss = To(b_, Mul(All(loss), share), stored_);
    return step;
  }

 private:
  ValueId Number(double value) const { return b_.Scalar(type_, value); }
  ValueId Add(ValueId x, ValueId y) const { return b_.Op("add", {x, y}); }
  ValueId Sub(ValueId x, ValueId y) const { return b_.Op("sub", {x, y}); }
  ValueId Mul(ValueId x, ValueId y) const { return b_.Op("mul", {x, y}); }
  ValueId Exp(ValueId x) const { return b_.Op("exp", {x}); }
  ValueId Where(ValueId condition, ValueId x, ValueId y) const {
    return b_.Op("where", {condition, x, y});
  }
  static Attrs AlongClasses() {
    return {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}};
  }
  ValueId Sum(ValueId x) const { return b_.Op("reduce_sum", {x}, AlongClasses()); }
  ValueId All(ValueId x) const { return b_.Op("reduce_sum", {x}, {{"keepdims", int64_t{0}}}); }
  ValueId Reshaped(ValueId x, const Shape& shape) const {
    return b_.Op("reshape", {x}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
  }
  ValueId Column(ValueId x) const { return Reshaped(x, {places_, 1}); }
  ValueId Row(ValueId x) const { return Reshaped(x, {1, places_}); }
  ValueId Ones() const {
    return b_.Op("expand", {Number(1)}, {{"shape", DimsValue({places_, 1})}});
  }
  // 0 where the place does not count.
  ValueId Counted(ValueId x) const { return ignored_.valid() ? Where(ignored_, Number(0), x) : x; }
  ValueId Product(ValueId x, ValueId y, bool trans_x, bool trans_y) const {
    return b_.Op("matmul", {x, y}, {{"trans_a", int64_t{trans_x}}, {"trans_b", int64_t{trans_y}}});
  }
  // With classes along `axis`, and places along the other one.
  ValueId IsTarget(const Chunk& chunk, size_t axis) const {
    Shape shape = {1, 1};
    shape[axis] = chunk.end - chunk.begin;
    const ValueId number =
        b_.Op("iota", {}, {{"shape", DimsValue(shape)}, {"axis", static_cast<int64_t>(axis)}});
    const ValueId first = b_.Scalar(DType::kI64, static_cast<double>(chunk.begin));
    return b_.Op("equal", {Add(number, first), axis == 1 ? Column(target_) : Row(target_)});
  }

  LinearCrossEntropyStep Gradients(ValueId log_sum, ValueId scale) const {
    LinearCrossEntropyStep step;
    std::vector<ValueId> rows;
    for (const Chunk& chunk : chunks_) {
      const ValueId z = To(b_, Product(chunk.weight, hidden_, false, true), type_);
      const ValueId p = Exp(Sub(z, Row(log_sum)));
      const ValueId off = Where(IsTarget(chunk, 0), Sub(p, Number(1)), p);
      const ValueId g = To(b_, Mul(off, Row(scale)), stored_);
      rows.push_back(Product(g, hidden_, false, false));
      const ValueId part = Product(g, chunk.weight, true, false);
      step.hidden_gradient = step.hidden_gradient.valid() ? Add(step.hidden_gradient, part) : part;
    }
    step.weight_gradient = b_.Op("concat", rows, {{"axis", int64_t{0}}});
    return step;
  }

  GraphBuilder& b_;
  const ValueId hidden_, weight_;
  const DType stored_, type_;
  const Dim places_;
  const ValueId target_;
  ValueId ignored_;  // [n, 1]
  std::vector<Chunk> chunks_;
};

}  // namespace

int64_t SmallChunk(int64_t classes) {
  // Three chunks are a hundredth, and a little stays for what has one number for each place.
  constexpr int64_t kChunks = 360, kLine = 16;
  const int64_t most = classes / kChunks;
  return most >= kLine ? most / kLine * kLine : std::max<int64_t>(1, most);
}

absl::StatusOr<LinearCrossEntropyStep> LinearCrossEntropy(GraphBuilder& b, ValueId hidden,
                                                          ValueId weight, ValueId target,
                                                          std::optional<int64_t> chunk,
                                                          std::optional<int64_t> ignore_index) {
  KILN_RETURN_IF_ERROR(b.status());
  const Shape h = b.shape(hidden), w = b.shape(weight), t = b.shape(target);
  const bool fits = h.size() == 2 && w.size() == 2 && t.size() == 1 && h[1] == w[1] &&
                    h[0] == t[0] && w[0].constant().value_or(0) > 0;
  const int64_t size = chunk ? *chunk : SmallChunk(w.empty() ? 0 : w[0].constant().value_or(0));
  if (!fits || size < 1)
    return absl::InvalidArgumentError(absl::StrCat(
        "linear cross-entropy: hidden ", ToString(h), ", weight ", ToString(w), ", target ",
        ToString(t), ", chunk ", size, "; expected [n, h], [classes, h], [n] and at least 1"));
  Head head(b, hidden, weight, target, ignore_index);
  head.Split(*w[0].constant(), size);
  const LinearCrossEntropyStep step = head.Build();
  KILN_RETURN_IF_ERROR(b.status());
  return step;
}

}  // namespace kiln::training
