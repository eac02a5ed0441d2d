// SPDX-License-Identifier: Apache-2.0
// Attention and its position codes; losses. All are compositions, computed in f32 or wider.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- attention

// [batch, sequence, heads * size] as [batch, heads, sequence, size].
absl::StatusOr<ValueId> SplitHeads(NodeView& n, ValueId x, int64_t heads) {
  const Shape s = ShapeOf(n, x);
  if (s.size() == 4) return x;
  if (s.size() != 3 || heads < 1)
    return absl::InvalidArgumentError("needs four axes, or three and the number of heads");
  const std::optional<Dim> size = s[2].DivideExactly(heads);
  if (!size) {
    return ExtentsError(
        {s[2]}, absl::StrCat(s[2].ToString(), " columns do not divide by ", heads, " heads"));
  }
  return Transpose(n, Reshape(n, x, {s[0], s[1], heads, *size}), {0, 2, 1, 3});
}

// What is added to the scores [batch, heads, queries, keys]; invalid: nothing.
class Bias {
 public:
  Bias(NodeView& n, DType type, const Shape& scores)
      : n_(n), type_(type), scores_(scores), queries_(scores[2]), keys_(scores[3]) {}

  void Add(ValueId bias) { sum_ = sum_.valid() ? n_.Op("add", {sum_, bias}) : bias; }
  void Allow(ValueId allowed) {
    Add(n_.Op("where", {allowed, n_.Scalar(type_, 0), n_.Scalar(type_, -kInfinity)}));
  }

  // A mask shorter than the keys hides those behind it.
  void AddMask(ValueId mask) {
    const Shape shape = ShapeOf(n_, mask);
    if (shape.empty()) return;
    const bool logical = TypeOf(n_, mask) == DType::kBool;
    if (!(shape.back() == keys_) && !shape.back().IsConst(1)) {
      Refuse(n_.Require(Guard::AtLeast(keys_ - shape.back(), 0),
                        absl::StrCat("mask has ", shape.back().ToString(), " columns for ",
                                     keys_.ToString(), " keys")));
      Shape pads(2 * shape.size(), 0);
      pads.back() = keys_ - shape.back();
      mask =
          n_.Op("pad", {mask}, {{"pads", DimsValue(pads)}, {"value", logical ? 0.0 : -kInfinity}});
    }
    Refuse(RequireWithin(n_, mask, scores_, "mask"));
    if (logical) {
      Allow(mask);
    } else {
      Add(Cast(n_, mask, type_));
    }
  }

  // Key minus query, where query 0 stands at `offset`: a number of keys, or [batch, 1, 1, 1].
  ValueId Distance(ValueId offset) {
    const ValueId query = n_.Op("add", {Coordinates(n_, queries_, 0, 2), offset});
    return n_.Op("sub", {Coordinates(n_, keys_, 1, 2), query});
  }

  ValueId sum() const { return sum_; }

 private:
  void Refuse(const absl::Status& status) {
    if (!status.ok()) n_.Fail(std::string(status.message()));
  }

  NodeView& n_;
  DType type_;
  const Shape scores_;
  const Dim queries_, keys_;
  ValueId sum_;
};

ValueId Number64(NodeView& n, int64_t value) {
  return n.Scalar(DType::kI64, static_cast<double>(value));
}

// The inputs: query, key, value, mask, past key, past value, numbers of keys that count.
absl::StatusOr<ValueId> BiasOf(NodeView& n, DType type, const Shape& scores) {
  Bias bias(n, type, scores);
  if (n.has(6)) KILN_RETURN_IF_ERROR(RequireShape(n, n.in(6), {scores[0]}, "nonpad_kv_seqlen"));
  if (n.has(3)) bias.AddMask(n.in(3));
  ValueId used;  // [batch, 1, 1, 1]
  if (n.has(6)) used = Unsqueeze(n, Cast(n, n.in(6), DType::kI64), {1, 2, 3});
  const int64_t left = n.Int("left_window_size", -1), right = n.Int("right_window_size", -1);
  const bool causal = n.Int("is_causal", 0) != 0;
  if (causal || left >= 0 || right >= 0) {
    ValueId offset = Number64(n, 0);
    if (n.has(4)) {
      offset = ExtentOf(n, n.in(4), 2, DType::kI64);
    } else if (used.valid()) {
      const ValueId count = n.Op("sub", {used, ExtentOf(n, n.in(0), n.rank(0) - 2, DType::kI64)});
      offset = count;
    }
    const ValueId distance = bias.Distance(offset);
    if (causal) bias.Allow(n.Op("less_equal", {distance, Number64(n, 0)}));
    if (left >= 0) bias.Allow(n.Op("greater_equal", {distance, Number64(n, -left)}));
    if (right >= 0) bias.Allow(n.Op("less_equal", {distance, Number64(n, right)}));
  }
  if (used.valid()) bias.Allow(n.Op("less", {Coordinates(n, scores[3], 3, 4), used}));
  return bias.sum();
}

// A softmax over the last axis in which a row that is hidden whole gives zeros.
ValueId MaskedSoftmax(NodeView& n, ValueId x) {
  const DType type = TypeOf(n, x);
  const Axes last = {-1};
  const ValueId top = Reduce(n, "reduce_max", x, last);
  const ValueId hidden = n.Op("equal", {top, n.Scalar(type, -kInfinity)});
  const ValueId shift = n.Op("where", {hidden, n.Scalar(type, 0), top});
  const ValueId e = n.Op("exp", {n.Op("sub", {x, shift})});
  const ValueId sum = Reduce(n, "reduce_sum", e, last);
  return n.Op("div", {e, n.Op("where", {hidden, n.Scalar(type, 1), sum})});
}

// A product over heads, of which several of `many` share one of `few`.
ValueId OverHeads(NodeView& n, ValueId many, ValueId few, bool transposed) {
  const Shape a = ShapeOf(n, many), b = ShapeOf(n, few);
  const Attrs attrs = {{"trans_b", int64_t{transposed}}};
  if (a.size() != 4 || b.size() != 4 || a[1] == b[1]) return n.Op("matmul", {many, few}, attrs);
  const Dim group = a[1].FloorDiv(b[1]);
  const ValueId grouped = Reshape(n, many, {a[0], b[1], group, a[2], a[3]});
  const ValueId product = n.Op("matmul", {grouped, Unsqueeze(n, few, {2})}, attrs);
  return Reshape(n, product, {a[0], a[1], a[2], transposed ? b[2] : b[3]});
}

// Key or value with what came before it, and the same as output k.
absl::StatusOr<ValueId> WithPast(NodeView& n, ValueId x, int past, int output) {
  const ValueId present = n.has(past) ? n.Op("concat", {n.in(past), x}, {{"axis", int64_t{2}}}) : x;
  if (n.wants(output)) KILN_RETURN_IF_ERROR(n.Give(output, n.Op("identity", {present})));
  return present;
}

// That queries, keys and values, of four axes, go together, but for what their products say.
absl::Status CheckOperands(NodeView& n, ValueId q, ValueId k, ValueId v) {
  const Shape qs = ShapeOf(n, q), ks = ShapeOf(n, k);
  KILN_RETURN_IF_ERROR(RequireExtent(n, k, 0, qs[0], "key"));
  KILN_RETURN_IF_ERROR(RequireExtent(n, v, 0, qs[0], "value"));
  KILN_RETURN_IF_ERROR(RequireExtent(n, v, 1, ks[1], "value"));
  KILN_RETURN_IF_ERROR(RequireExtent(n, v, 2, ks[2], "value"));
  const std::optional<int64_t> shared = ks[1].constant();
  if (!shared || *shared < 1) return absl::OkStatus();
  return n.Require(Guard::Divisible(qs[1], *shared),
                   absl::StrCat("query has ", qs[1].ToString(),
                                " heads, expected a multiple of the ", *shared, " of the key"));
}

absl::Status Attention(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 7));
  n.Ignore("softmax_precision");  // it is f32 or wider
  const DType stored = n.value(0).type;
  const DType type = ComputeType(stored);
  const int64_t heads = n.Int("q_num_heads", 0), kv_heads = n.Int("kv_num_heads", 0);
  KILN_ASSIGN_OR_RETURN(ValueId q, SplitHeads(n, n.in(0), heads));
  KILN_ASSIGN_OR_RETURN(ValueId k, SplitHeads(n, n.in(1), kv_heads));
  KILN_ASSIGN_OR_RETURN(ValueId v, SplitHeads(n, n.in(2), kv_heads));
  KILN_ASSIGN_OR_RETURN(k, WithPast(n, k, 4, 1));
  KILN_ASSIGN_OR_RETURN(v, WithPast(n, v, 5, 2));
  KILN_RETURN_IF_ERROR(n.status());
  KILN_RETURN_IF_ERROR(CheckOperands(n, q, k, v));
  const Shape qs = ShapeOf(n, q), ks = ShapeOf(n, k);
  double scale = n.Float("scale", 0);
  if (!n.HasAttr("scale")) {
    const std::optional<int64_t> size = qs[3].constant();
    if (!size)
      return ExtentsError(
          {qs[3]}, absl::StrCat("the size of a head is ", qs[3].ToString(), "; give the scale"));
    scale = 1 / std::sqrt(static_cast<double>(*size));
  }
  const double cap = n.Float("softcap", 0);
  const int64_t mode = n.Int("qk_matmul_output_mode", 0);
  ValueId scores = OverHeads(n, Cast(n, q, type), Cast(n, k, type), true);
  scores = n.Op("mul", {scores, n.Scalar(type, scale)});
  ValueId shown = scores;
  const auto show = [&](int64_t of, ValueId value) { shown = mode == of ? value : shown; };
  if (cap > 0) {
    const ValueId bent = n.Op("tanh", {n.Op("mul", {scores, n.Scalar(type, 1 / cap)})});
    scores = n.Op("mul", {bent, n.Scalar(type, cap)});
  }
  show(1, scores);
  KILN_ASSIGN_OR_RETURN(const ValueId bias, BiasOf(n, type, {qs[0], qs[1], qs[2], ks[2]}));
  if (bias.valid()) scores = n.Op("add", {scores, bias});
  show(2, scores);
  const ValueId weights =
      bias.valid() ? MaskedSoftmax(n, scores) : n.Op("softmax", {scores}, {{"axis", int64_t{-1}}});
  show(3, weights);
  if (n.wants(3)) KILN_RETURN_IF_ERROR(n.Give(3, n.Op("cast", {shown}, {{"to", stored}})));
  ValueId y = Cast(n, OverHeads(n, weights, Cast(n, v, type), false), stored);
  if (n.rank(0) == 4) return n.Emit("identity", {y});
  const Shape ys = ShapeOf(n, y);
  if (ys.size() != 4) return n.status();
  return n.Emit("reshape", {Transpose(n, y, {0, 2, 1, 3})},
                {{"shape", DimsValue({ys[0], ys[2], ys[1] * ys[3]})}, {"allowzero", int64_t{1}}});
}

// ---- rotary embedding

absl::Status RotaryEmbedding(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 4));
  const DType stored = n.value(0).type, type = ComputeType(stored);
  const Shape given = n.value(0).shape;
  const int64_t heads = n.Int("num_heads", 0);
  const bool interleaved = n.Int("interleaved", 0) != 0;
  KILN_ASSIGN_OR_RETURN(const ValueId x, SplitHeads(n, n.in(0), heads));
  const Shape shape = ShapeOf(n, x);
  if (shape.size() != 4) return n.status();
  const std::optional<int64_t> size = shape[3].constant();
  int64_t rotated = n.Int("rotary_embedding_dim", 0);
  if (!size) return ExtentsError({shape[3]}, "the size of a head must be known");
  if (rotated == 0) rotated = *size;
  if (rotated < 0 || rotated > *size || rotated % 2 != 0)
    return absl::InvalidArgumentError(absl::StrCat("rotary_embedding_dim is ", rotated));
  const int64_t half = rotated / 2;
  // Caches are [positions, half] with the positions of each element, or [batch, sequence, half].
  KILN_RETURN_IF_ERROR(RequireShape(n, n.in(2), n.value(1).shape, "sine"));
  KILN_RETURN_IF_ERROR(RequireExtent(n, n.in(1), n.rank(1) - 1, half, "cosine"));
  if (n.has(3)) {
    KILN_RETURN_IF_ERROR(RequireShape(n, n.in(3), {shape[0], shape[2]}, "position_ids"));
  } else {
    KILN_RETURN_IF_ERROR(RequireShape(n, n.in(1), {shape[0], shape[2], half}, "cosine"));
  }
  const auto cache = [&](int k) {
    const ValueId rows =
        n.has(3) ? n.Op("gather", {n.in(k), n.in(3)}, {{"axis", int64_t{0}}}) : n.in(k);
    return Unsqueeze(n, Cast(n, rows, type), {1});
  };
  const ValueId cosine = cache(1), sine = cache(2);
  const ValueId part = Cast(n, Slice(n, x, 3, 0, rotated), type);
  const ValueId a = interleaved ? Slice(n, part, 3, 0, rotated, 2) : Slice(n, part, 3, 0, half);
  const ValueId b =
      interleaved ? Slice(n, part, 3, 1, rotated, 2) : Slice(n, part, 3, half, rotated);
  const ValueId real = n.Op("sub", {n.Op("mul", {cosine, a}), n.Op("mul", {sine, b})});
  const ValueId imaginary = n.Op("add", {n.Op("mul", {sine, a}), n.Op("mul", {cosine, b})});
  ValueId y;
  if (interleaved) {
    Shape whole = shape;
    whole[3] = rotated;
    y = Reshape(n,
                n.Op("concat", {Unsqueeze(n, real, {4}), Unsqueeze(n, imaginary, {4})},
                     {{"axis", int64_t{4}}}),
                whole);
  } else {
    y = n.Op("concat", {real, imaginary}, {{"axis", int64_t{3}}});
  }
  y = Cast(n, y, stored);
  if (rotated < *size)
    y = n.Op("concat", {y, Slice(n, x, 3, rotated, *size)}, {{"axis", int64_t{3}}});
  if (given.size() == 4) return n.Emit("identity", {y});
  return n.Emit("reshape", {Transpose(n, y, {0, 2, 1, 3})},
                {{"shape", DimsValue(given)}, {"allowzero", int64_t{1}}});
}

// ---- losses

// The loss of log-probabilities [N, C, ...] for classes [N, ...] (inputs 1 and, weights, 2).
absl::Status EmitLikelihoodLoss(NodeView& n, ValueId log_prob) {
  const DType stored = n.value(0).type, type = TypeOf(n, log_prob);
  const std::string reduction = n.Text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return absl::InvalidArgumentError(absl::StrCat("reduction \"", reduction, "\" is not known"));
  Shape places = n.value(0).shape;
  if (places.size() < 2) return absl::InvalidArgumentError("the input has no axis of classes");
  const Dim classes = places[1];
  places.erase(places.begin() + 1);
  KILN_RETURN_IF_ERROR(RequireShape(n, n.in(1), places, "target"));
  if (n.has(2)) KILN_RETURN_IF_ERROR(RequireShape(n, n.in(2), {classes}, "weight"));
  ValueId target = Cast(n, n.in(1), DType::kI64);
  ValueId ignored;
  if (n.HasAttr("ignore_index")) {
    ignored = n.Op("equal", {target, Number64(n, n.Int("ignore_index", 0))});
    target = n.Op("where", {ignored, Number64(n, 0), target});
  }
  const ValueId picked =
      n.Op("gather_elements", {log_prob, Unsqueeze(n, target, {1})}, {{"axis", int64_t{1}}});
  ValueId loss = n.Op("neg", {Squeeze(n, picked, {1})});
  ValueId weight;
  if (n.has(2)) {
    weight = n.Op("gather", {Cast(n, n.in(2), type), target}, {{"axis", int64_t{0}}});
    loss = n.Op("mul", {loss, weight});
  }
  if (ignored.valid()) {
    const ValueId nothing = n.Scalar(type, 0);
    weight = n.Op("where", {ignored, nothing, weight.valid() ? weight : n.Scalar(type, 1)});
    loss = n.Op("where", {ignored, nothing, loss});
  }
  const Axes all = AxesFrom(0, RankOf(n, loss));
  if (reduction == "sum") {
    loss = Reduce(n, "reduce_sum", loss, all, false);
  } else if (reduction == "mean" && !weight.valid()) {
    loss = Reduce(n, "reduce_mean", loss, all, false);
  } else if (reduction == "mean") {
    loss = n.Op("div", {Reduce(n, "reduce_sum", loss, all, false),
                        Reduce(n, "reduce_sum", weight, all, false)});
  }
  return n.Emit("cast", {loss}, {{"to", stored}});
}

absl::Status NegativeLogLikelihoodLoss(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  return EmitLikelihoodLoss(n, Cast(n, n.in(0), ComputeType(n.value(0).type)));
}

absl::Status SoftmaxCrossEntropyLoss(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  const DType stored = n.value(0).type;
  const ValueId x = Cast(n, n.in(0), ComputeType(stored));
  const ValueId log_prob = n.Op("log_softmax", {x}, {{"axis", int64_t{1}}});
  if (n.wants(1)) KILN_RETURN_IF_ERROR(n.Give(1, n.Op("cast", {log_prob}, {{"to", stored}})));
  return EmitLikelihoodLoss(n, log_prob);
}

constexpr Converter kAttentionRows[] = {
    {"Attention", 23, Attention},
    {"NegativeLogLikelihoodLoss", 12, NegativeLogLikelihoodLoss},
    {"RotaryEmbedding", 23, RotaryEmbedding},
    {"SoftmaxCrossEntropyLoss", 12, SoftmaxCrossEntropyLoss},
};

}  // namespace

std::span<const Converter> AttentionConverters() { return kAttentionRows; }

}  // namespace kiln::onnx
