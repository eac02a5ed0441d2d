// SPDX-License-Identifier: Apache-2.0
// Operators of domain com.microsoft, which deployed files are full of, written with ordinary ops:
// what is fused there is fused again here.
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::onnx {
namespace {

using Ints = std::vector<int64_t>;

// Short names for what decompositions are made of. 16-bit floats are computed in f32.
struct Writer {
  NodeView& n;

  DType type(ValueId x) const { return x.valid() ? n.value(x).type : DType::kF32; }
  ValueId To(ValueId x, DType type) {
    return !x.valid() || n.value(x).type == type ? x : n.Op("cast", {x}, {{"to", type}});
  }
  ValueId Wide(ValueId x) { return To(x, ComputeType(type(x))); }
  ValueId Scalar(ValueId like, double value) { return n.Scalar(type(like), value); }
  ValueId Add(ValueId a, ValueId b) { return n.Op("add", {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return n.Op("mul", {a, b}); }
  ValueId Scale(ValueId a, double factor) { return Mul(a, Scalar(a, factor)); }
  ValueId Reshape(ValueId x, const Shape& shape) {
    return n.Op("reshape", {x}, {{"shape", DimsValue(shape)}, {"allowzero", int64_t{1}}});
  }
  ValueId Transpose(ValueId x, Ints perm) { return n.Op("transpose", {x}, {{"perm", perm}}); }
  ValueId Unsqueeze(ValueId x, Ints axes) { return n.Op("unsqueeze", {x}, {{"axes", axes}}); }
  ValueId Matmul(ValueId a, ValueId b, bool trans_b = false) {
    return n.Op("matmul", {a, b}, {{"trans_b", int64_t{trans_b ? 1 : 0}}});
  }
  ValueId Concat(std::vector<ValueId> parts, int64_t axis) {
    return n.Op("concat", std::move(parts), {{"axis", axis}});
  }
  ValueId Gather(ValueId x, ValueId indices) {
    return n.Op("gather", {x, indices}, {{"axis", int64_t{0}}});
  }
  ValueId Slice(ValueId x, int64_t axis, const Dim& start, const Dim& end) {
    return n.Op("slice", {x},
                {{"starts", DimsValue({start})},
                 {"ends", DimsValue({end})},
                 {"axes", Ints{axis}},
                 {"steps", Ints{1}}});
  }
  // 0, 1, ... of an extent.
  ValueId Count(ValueId x, int64_t axis) {
    const auto number = [&](ValueId of) { return n.Op("reshape", {of}, {{"shape", Ints{}}}); };
    return n.Op("range", {n.Scalar(DType::kI64, 0),
                          number(n.Op("shape", {x}, {{"start", axis}, {"end", axis + 1}})),
                          n.Scalar(DType::kI64, 1)});
  }
  // x / sqrt(mean(x^2) + epsilon) * scale over the last axis.
  ValueId RmsNorm(ValueId x, ValueId scale, double epsilon, ValueId* inverse = nullptr) {
    const ValueId wide = Wide(x);
    const ValueId mean =
        n.Op("reduce_mean", {Mul(wide, wide)}, {{"axes", Ints{-1}}, {"keepdims", int64_t{1}}});
    const ValueId factor = n.Op("rsqrt", {Add(mean, Scalar(wide, epsilon))});
    if (inverse != nullptr) *inverse = factor;
    return To(Mul(Mul(wide, factor), Wide(scale)), type(x));
  }
};

absl::Status Done(NodeView& n, ValueId y) { return n.Emit("identity", {y}); }

// ---- matrix products, activations

absl::Status FusedMatMul(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  Writer w{n};
  std::vector<ValueId> operands = n.inputs();
  const char* const flags[] = {"transBatchA", "transBatchB"};
  for (int k = 0; k < 2; ++k) {  // the first axis goes behind the batch axes
    if (n.Int(flags[k], 0) == 0 || n.rank(k) < 3) continue;
    Ints perm;
    for (int64_t i = 1; i + 1 < n.rank(k); ++i) perm.push_back(i);
    perm.insert(perm.end(), {0, n.rank(k) - 1});
    operands[static_cast<size_t>(k)] = w.Transpose(n.in(k), std::move(perm));
  }
  const double alpha = n.Float("alpha", 1);
  const Attrs attrs = {{"trans_a", int64_t{n.Int("transA", 0) != 0 && n.rank(0) > 1}},
                       {"trans_b", int64_t{n.Int("transB", 0) != 0 && n.rank(1) > 1}}};
  if (alpha == 1) return n.Emit("matmul", operands, attrs);
  return Done(n, w.Scale(n.Op("matmul", operands, attrs), alpha));
}

// That input k is as long as the last axis of input 0.
absl::Status CheckVector(NodeView& n, int k, absl::string_view what) {
  if (n.rank(0) < 1) return absl::InvalidArgumentError("input 0 has no axis");
  return RequireShape(n, n.in(k), {n.value(0).shape.back()}, what);
}

absl::Status Gelu(NodeView& n) { return n.Emit("gelu", {n.in(0)}); }

absl::Status BiasGelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  KILN_RETURN_IF_ERROR(CheckVector(n, 1, "bias"));
  return n.Emit("gelu", {Writer{n}.Add(n.in(0), n.in(1))});
}

absl::Status FastGelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  if (n.has(1)) KILN_RETURN_IF_ERROR(CheckVector(n, 1, "bias"));
  const ValueId x = n.has(1) ? Writer{n}.Add(n.in(0), n.in(1)) : n.in(0);
  return n.Emit("gelu", {x}, {{"approximate", std::string("tanh")}});
}

absl::Status QuickGelu(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  Writer w{n};
  const ValueId x = w.Wide(n.in(0));
  const ValueId gate = n.Op("sigmoid", {w.Scale(x, n.Float("alpha", 1.702f))});
  return Done(n, w.To(w.Mul(x, gate), n.value(0).type));
}

// ---- normalisation

absl::Status SimplifiedLayerNormalization(NodeView& n) {
  n.Ignore("stash_type");
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  if (n.Int("axis", -1) != -1 && n.Int("axis", -1) != n.rank(0) - 1)
    return absl::UnimplementedError("only the last axis is supported");
  KILN_RETURN_IF_ERROR(RequireWithin(n, n.in(1), n.value(0).shape, "scale"));
  ValueId inverse;
  const ValueId y = Writer{n}.RmsNorm(n.in(0), n.in(1), n.Float("epsilon", 1e-5f), &inverse);
  KILN_RETURN_IF_ERROR(n.status());
  if (n.wants(1)) KILN_RETURN_IF_ERROR(n.Give(1, inverse));
  return Done(n, y);
}

// The sum that is normalised is output 3.
absl::Status SkipNorm(NodeView& n, bool simplified) {
  const int bias = simplified ? 3 : 4;
  KILN_RETURN_IF_ERROR(n.Need(3, bias + 1));
  if (n.wants(1) || n.wants(2))
    return absl::UnimplementedError("mean and inverse deviation are made in training only");
  KILN_RETURN_IF_ERROR(RequireWithin(n, n.in(1), n.value(0).shape, "skip"));
  KILN_RETURN_IF_ERROR(CheckVector(n, 2, "gamma"));
  if (!simplified && n.has(3)) KILN_RETURN_IF_ERROR(CheckVector(n, 3, "beta"));
  if (n.has(bias)) KILN_RETURN_IF_ERROR(CheckVector(n, bias, "bias"));
  Writer w{n};
  ValueId sum = w.Add(n.in(0), n.in(1));
  if (n.has(bias)) sum = w.Add(sum, n.in(bias));
  KILN_RETURN_IF_ERROR(n.status());
  if (n.wants(3)) KILN_RETURN_IF_ERROR(n.Give(3, sum));
  const double epsilon = n.Float("epsilon", 1e-12f);
  if (simplified) return Done(n, w.RmsNorm(sum, n.in(2), epsilon));
  std::vector<ValueId> inputs = {sum, n.in(2)};
  if (n.has(3)) inputs.push_back(n.in(3));
  return Done(n,
              n.Op("layer_norm", std::move(inputs), {{"axis", int64_t{-1}}, {"epsilon", epsilon}}));
}
absl::Status SkipLayerNormalization(NodeView& n) { return SkipNorm(n, false); }
absl::Status SkipSimplifiedLayerNormalization(NodeView& n) { return SkipNorm(n, true); }

absl::Status EmbedLayerNormalization(NodeView& n) {
  n.Ignore("mask_index_type");
  KILN_RETURN_IF_ERROR(n.Need(1, 9));
  for (const int k : {2, 3, 5, 6}) {
    if (!n.has(k)) return absl::InvalidArgumentError(absl::StrCat("input ", k, " is left out"));
  }
  Writer w{n};
  const ValueId words = w.Gather(n.in(2), n.in(0));
  const ValueId places = n.has(8) ? n.in(8) : w.Count(n.in(0), 1);
  ValueId sum = w.Add(words, w.Gather(n.in(3), places));
  if (n.has(1) && n.has(4)) sum = w.Add(sum, w.Gather(n.in(4), n.in(1)));
  KILN_RETURN_IF_ERROR(n.status());
  if (n.wants(1)) {  // how many words of each row count
    const ValueId ids = n.has(7) ? n.in(7) : w.Mul(n.in(0), w.Scalar(n.in(0), 0));
    KILN_RETURN_IF_ERROR(
        n.Give(1, w.To(n.Op("reduce_sum", {ids}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}),
                       DType::kI32)));
  }
  if (n.wants(2)) KILN_RETURN_IF_ERROR(n.Give(2, sum));
  return Done(n, n.Op("layer_norm", {sum, n.in(5), n.in(6)},
                      {{"axis", int64_t{-1}}, {"epsilon", n.Float("epsilon", 1e-12f)}}));
}

// ---- attention

struct Heads {
  ValueId q, k, v;  // [batch, heads, length, size]
};

// That the operands of attention go together, but for what their products say.
absl::Status CheckHeads(NodeView& n, const Heads& h, ValueId bias) {
  const Shape q = ShapeOf(n, h.q), k = ShapeOf(n, h.k);
  if (q.size() != 4 || k.size() != 4) return n.status();
  for (const int64_t axis : {0, 1}) {
    KILN_RETURN_IF_ERROR(RequireExtent(n, h.k, axis, q[static_cast<size_t>(axis)], "key"));
    KILN_RETURN_IF_ERROR(RequireExtent(n, h.v, axis, q[static_cast<size_t>(axis)], "value"));
  }
  KILN_RETURN_IF_ERROR(RequireExtent(n, h.v, 2, k[2], "value"));
  return bias.valid() ? RequireWithin(n, bias, {q[0], q[1], q[2], k[2]}, "mask") : n.status();
}

// softmax(q k^T * scale + bias) v, in the type of q; `bias` broadcasts to the scores.
ValueId Attend(Writer& w, const Heads& h, double scale, ValueId bias, double softcap = 0) {
  const absl::Status fits = CheckHeads(w.n, h, bias);
  if (!fits.ok()) return w.n.Fail(std::string(fits.message()));
  ValueId scores = w.Scale(w.Wide(w.Matmul(h.q, h.k, true)), scale);
  if (softcap > 0) scores = w.Scale(w.n.Op("tanh", {w.Scale(scores, 1 / softcap)}), softcap);
  if (bias.valid()) scores = w.Add(scores, w.To(bias, w.type(scores)));
  const ValueId weights = w.n.Op("softmax", {scores}, {{"axis", int64_t{-1}}});
  return w.Matmul(w.To(weights, w.type(h.v)), h.v);
}

// [batch, length, heads * size] and back.
ValueId SplitHeads(Writer& w, ValueId x, int64_t heads) {
  const Shape shape = x.valid() ? w.n.value(x).shape : Shape(3);
  if (shape.size() != 3)
    return w.n.Fail(absl::StrCat(ToString(shape), " is not [batch, length, width]"));
  const Dim size = shape[2].DivideExactly(heads).value_or(shape[2].FloorDiv(heads));
  return w.Transpose(w.Reshape(x, {shape[0], shape[1], heads, size}), {0, 2, 1, 3});
}
ValueId JoinHeads(Writer& w, ValueId x) {
  const Shape shape = x.valid() ? w.n.value(x).shape : Shape(4);
  if (shape.size() != 4)
    return w.n.Fail(absl::StrCat(ToString(shape), " is not [batch, heads, length, size]"));
  return w.Reshape(w.Transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

// `masked` where `keep` is false, else 0, as f32.
ValueId MaskBias(Writer& w, ValueId keep, double masked) {
  return w.n.Op("where", {keep, w.n.Scalar(DType::kF32, 0), w.n.Scalar(DType::kF32, masked)});
}

// True where key j counts for query i: j <= i + extent `axis` of `past`, the keys before the first
// query; an invalid `past` has none. [queries, keys]
ValueId Causal(Writer& w, ValueId q, ValueId k, ValueId past, int64_t axis) {
  ValueId i = w.Unsqueeze(w.Count(q, 2), {1});
  const ValueId j = w.Unsqueeze(w.Count(k, 2), {0});
  if (past.valid()) i = w.Add(i, w.n.Op("shape", {past}, {{"start", axis}, {"end", axis + 1}}));
  return w.n.Op("less_equal", {j, i});
}

// Of keys behind a query. Keys that a mask hides have less: where all others are hidden too, the
// softmax is over those before the query.
constexpr double kHidden = -std::numeric_limits<float>::max();

ValueId AddBias(Writer& w, ValueId bias, ValueId more) {
  return bias.valid() ? w.Add(bias, more) : more;
}

// A mask of keys: [batch, keys] (0: not), or [batch] (how many), or [batch, queries, keys].
absl::StatusOr<ValueId> KeyMask(Writer& w, ValueId mask, ValueId k, double masked) {
  NodeView& n = w.n;
  const size_t rank = n.value(mask).shape.size();
  ValueId keep;
  if (rank == 1) {
    if (!(n.value(mask).shape[0] == n.value(k).shape[0]))
      return absl::UnimplementedError("a mask of starts and ends is not supported");
    const ValueId count = w.Unsqueeze(w.To(mask, DType::kI64), {1});
    keep = w.Unsqueeze(n.Op("less", {w.Unsqueeze(w.Count(k, 2), {0}), count}), {1, 2});
  } else if (rank == 2 || rank == 3) {
    keep =
        w.Unsqueeze(n.Op("not_equal", {mask, w.Scalar(mask, 0)}), rank == 2 ? Ints{1, 2} : Ints{1});
  } else {
    return absl::UnimplementedError(absl::StrCat("a mask of rank ", rank, " is not supported"));
  }
  return MaskBias(w, keep, masked);
}

absl::StatusOr<double> ScaleOf(NodeView& n, ValueId q) {
  const double given = n.Float("scale", 0);
  if (given != 0) return given;
  KILN_RETURN_IF_ERROR(n.status());
  const Shape shape = ShapeOf(n, q);
  if (shape.size() != 4)
    return absl::InvalidArgumentError(absl::StrCat("queries ", ToString(shape), " have no heads"));
  if (const auto size = shape[3].constant()) return 1 / std::sqrt(static_cast<double>(*size));
  return ExtentsError(
      {shape[3]}, absl::StrCat("the size of a head is ", shape[3].ToString(), "; give the scale"));
}

absl::Status Attention(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 7));
  const int64_t heads = n.Int("num_heads", 0);
  if (heads <= 0) return absl::InvalidArgumentError("num_heads is missing");
  if (n.Int("past_present_share_buffer", 0) != 0 || n.Int("do_rotary", 0) != 0)
    return absl::UnimplementedError("a shared buffer and rotary embedding are not supported");
  n.Ignore("rotary_embedding_dim");
  Writer w{n};
  ValueId all = w.Matmul(n.in(0), n.in(1));
  if (n.has(2)) all = w.Add(all, n.in(2));
  KILN_RETURN_IF_ERROR(n.status());
  if (n.value(all).shape.size() != 3)
    return absl::InvalidArgumentError("inputs 0 and 1 are not [batch, length, width] and a matrix");
  const Dim width = n.value(all).shape[2];
  if (n.has(2)) KILN_RETURN_IF_ERROR(RequireShape(n, n.in(2), {n.value(1).shape.back()}, "bias"));
  Ints sizes = n.Ints("qkv_hidden_sizes");
  if (sizes.empty()) {
    const std::optional<int64_t> known = width.constant();
    if (!known) return ExtentsError({width}, "the width of the weights is not known");
    sizes.assign(3, *known / 3);
  }
  if (sizes.size() != 3) return absl::InvalidArgumentError("qkv_hidden_sizes needs three numbers");
  const auto part = [&](int64_t first, int64_t size) {
    return SplitHeads(w, w.Slice(all, 2, first, first + size), heads);
  };
  Heads h = {part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2])};
  if (n.has(4)) {  // keys and values, [2, batch, heads, length, size]
    const auto past = [&](int64_t which) {
      return n.Op("squeeze", {w.Slice(n.in(4), 0, which, which + 1)}, {{"axes", Ints{0}}});
    };
    h.k = w.Concat({past(0), h.k}, 2);
    h.v = w.Concat({past(1), h.v}, 2);
  }
  KILN_RETURN_IF_ERROR(n.status());
  if (n.wants(1)) {
    KILN_RETURN_IF_ERROR(n.Give(1, w.Concat({w.Unsqueeze(h.k, {0}), w.Unsqueeze(h.v, {0})}, 0)));
  }
  const double masked = n.Float("mask_filter_value", -10000);
  ValueId bias;
  if (n.has(3)) {
    KILN_ASSIGN_OR_RETURN(bias, KeyMask(w, n.in(3), h.k, masked));
  }
  if (n.Int("unidirectional", 0) != 0)
    bias = AddBias(w, bias, MaskBias(w, Causal(w, h.q, h.k, n.in(4), 3), kHidden));
  if (n.has(5)) bias = AddBias(w, bias, w.To(n.in(5), DType::kF32));
  KILN_ASSIGN_OR_RETURN(const double scale, ScaleOf(n, h.q));
  return Done(n, JoinHeads(w, Attend(w, h, scale, bias)));
}

absl::Status MultiHeadAttention(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 10));
  const int64_t heads = n.Int("num_heads", 0);
  if (heads <= 0) return absl::InvalidArgumentError("num_heads is missing");
  if (!n.has(1) || !n.has(2) || n.rank(0) != 3)
    return absl::UnimplementedError("packed queries, keys and values are not supported");
  if (n.has(8) || n.has(9) || n.wants(3))
    return absl::UnimplementedError("a shared buffer of past keys is not supported");
  for (const int k : {1, 2}) {
    if (n.rank(k) != 3 && n.rank(k) != 4)
      return absl::UnimplementedError(absl::StrCat("input ", k, " has rank ", n.rank(k)));
  }
  Writer w{n};
  ValueId parts[3] = {n.in(0), n.in(1), n.in(2)};
  if (n.has(3)) {  // one vector for all three
    Dim first = 0;
    for (ValueId& part : parts) {
      const Dim size = n.rank(1) == 4 ? n.value(0).shape[2] : n.value(part).shape[2];
      if (n.value(part).shape.size() == 3)
        part = w.Add(part, w.Slice(n.in(3), 0, first, first + size));
      first = first + size;
    }
    if (n.rank(1) == 3 && n.rank(2) == 3)
      KILN_RETURN_IF_ERROR(RequireShape(n, n.in(3), {first}, "bias"));
  }
  Heads h = {SplitHeads(w, parts[0], heads), parts[1], parts[2]};
  if (n.rank(1) == 3) h.k = SplitHeads(w, parts[1], heads);  // else it has heads already
  if (n.rank(2) == 3) h.v = SplitHeads(w, parts[2], heads);
  if (n.has(6)) h.k = w.Concat({n.in(6), h.k}, 2);
  if (n.has(7)) h.v = w.Concat({n.in(7), h.v}, 2);
  KILN_RETURN_IF_ERROR(n.status());
  if (n.wants(1)) KILN_RETURN_IF_ERROR(n.Give(1, h.k));
  if (n.wants(2)) KILN_RETURN_IF_ERROR(n.Give(2, h.v));
  const double masked = n.Float("mask_filter_value", -10000);
  ValueId bias;
  if (n.has(4)) {
    KILN_ASSIGN_OR_RETURN(bias, KeyMask(w, n.in(4), h.k, masked));
  }
  if (n.Int("unidirectional", 0) != 0)
    bias = AddBias(w, bias, MaskBias(w, Causal(w, h.q, h.k, n.in(6), 2), kHidden));
  if (n.has(5)) bias = AddBias(w, bias, w.To(n.in(5), DType::kF32));
  KILN_ASSIGN_OR_RETURN(const double scale, ScaleOf(n, h.q));
  return Done(n, JoinHeads(w, Attend(w, h, scale, bias)));
}

// ---- rotary embedding

// x [batch, heads, length, size]; cos and sin [batch or 1, 1, length, half].
ValueId Rotate(Writer& w, ValueId x, ValueId cos, ValueId sin, int64_t half, bool interleaved) {
  NodeView& n = w.n;
  if (!x.valid()) return {};
  const Shape shape = n.value(x).shape;
  if (shape.size() != 4)
    return n.Fail(absl::StrCat(ToString(shape), " is not [batch, heads, length, size]"));
  const bool rest = !shape[3].IsConst(2 * half);
  const ValueId rotated = rest ? w.Slice(x, 3, 0, 2 * half) : x;
  ValueId a, b;
  if (interleaved) {
    const ValueId pairs = w.Reshape(rotated, {shape[0], shape[1], shape[2], half, 2});
    const auto one = [&](int64_t which) {
      return n.Op("squeeze", {w.Slice(pairs, 4, which, which + 1)}, {{"axes", Ints{4}}});
    };
    a = one(0);
    b = one(1);
  } else {
    a = w.Slice(rotated, 3, 0, half);
    b = w.Slice(rotated, 3, half, 2 * half);
  }
  const ValueId real = n.Op("sub", {w.Mul(a, cos), w.Mul(b, sin)});
  const ValueId imaginary = w.Add(w.Mul(b, cos), w.Mul(a, sin));
  ValueId y;
  if (interleaved) {
    y = w.Reshape(w.Concat({w.Unsqueeze(real, {4}), w.Unsqueeze(imaginary, {4})}, 4),
                  {shape[0], shape[1], shape[2], 2 * half});
  } else {
    y = w.Concat({real, imaginary}, 3);
  }
  return rest ? w.Concat({y, w.Slice(x, 3, 2 * half, shape[3])}, 3) : y;
}

absl::StatusOr<int64_t> HalfOf(const NodeView& n, ValueId cache) {
  if (!cache.valid() || n.value(cache).shape.size() != 2)
    return absl::InvalidArgumentError("the table of cosines is no matrix");
  const std::optional<int64_t> half = n.value(cache).shape[1].constant();
  if (half && *half < 1)
    return absl::InvalidArgumentError("the table of cosines has a width of 0, expected at least 1");
  if (half) return *half;
  return ExtentsError({n.value(cache).shape[1]}, "the width of the table of cosines is not known");
}

absl::Status RotaryEmbedding(NodeView& n) {
  n.Ignore("rotary_embedding_dim");  // the tables say it
  KILN_RETURN_IF_ERROR(n.Need(4, 4));
  if (n.Int("is_packed_batching", 0) != 0 || n.Float("scale", 1) != 1)
    return absl::UnimplementedError("packed batches and scales are not supported");
  Writer w{n};
  KILN_ASSIGN_OR_RETURN(const int64_t half, HalfOf(n, n.in(2)));
  const bool has_heads = n.rank(0) == 4;
  if (!has_heads && n.rank(0) != 3)
    return absl::InvalidArgumentError(absl::StrCat("input 0 has rank ", n.rank(0)));
  int64_t heads = n.Int("num_heads", 0);
  if (!has_heads && heads == 0) {
    const std::optional<int64_t> width = n.value(0).shape[2].constant();
    if (!width) return ExtentsError({n.value(0).shape[2]}, "the number of heads is not known");
    heads = *width / (2 * half);
  }
  const ValueId x = has_heads ? n.in(0) : SplitHeads(w, n.in(0), heads);
  KILN_RETURN_IF_ERROR(n.status());
  KILN_RETURN_IF_ERROR(RequireShape(n, n.in(3), n.value(2).shape, "the table of sines"));
  const Shape shape = ShapeOf(n, x);
  if (n.rank(1) == 1) {
    KILN_RETURN_IF_ERROR(RequireExtent(n, n.in(1), 0, 1, "position_ids"));
  } else {
    KILN_RETURN_IF_ERROR(RequireWithin(n, n.in(1), {shape[0], shape[2]}, "position_ids"));
  }
  // One number: the first position of all rows.
  const ValueId places = n.rank(1) == 1 ? w.Unsqueeze(w.Add(n.in(1), w.Count(x, 2)), {0}) : n.in(1);
  const ValueId cos = w.Unsqueeze(w.Gather(n.in(2), places), {1});
  const ValueId sin = w.Unsqueeze(w.Gather(n.in(3), places), {1});
  const ValueId y = Rotate(w, x, cos, sin, half, n.Int("interleaved", 0) != 0);
  return Done(n, has_heads ? y : JoinHeads(w, y));
}

// ---- grouped queries: the state of decoders

// Every key head serves as many query heads.
ValueId RepeatHeads(Writer& w, ValueId x, int64_t times) {
  if (times == 1 || !x.valid()) return x;
  const Shape s = w.n.value(x).shape;
  const ValueId spread = w.n.Op("expand", {w.Unsqueeze(x, {2})},
                                {{"shape", DimsValue({s[0], s[1], times, s[2], s[3]})}});
  return w.Reshape(spread, {s[0], s[1] * times, s[2], s[3]});
}

// Where the new tokens of every row stand: behind its own past, which may be shorter than the
// buffer of past keys that all rows share.
struct RowPlaces {
  Dim buffer = 0, present;  // the lengths of keys before and after
  ValueId past;             // [batch, 1]: keys of the row that count; invalid: 0 of all rows
  ValueId places;           // [batch or 1, length]: of the new tokens
  bool dense = true;        // rows have no gap: keys are the buffer and what is new
};

// seqlens_k is the last place of a row, total_sequence_length the length of the longest one. A run
// in which all tokens are new is a prompt: rows begin at 0 and are padded at their ends.
absl::StatusOr<RowPlaces> PlacesOfRows(Writer& w, ValueId q) {
  NodeView& n = w.n;
  const Shape shape = ShapeOf(n, q);
  RowPlaces rows;
  rows.places = w.Unsqueeze(w.Count(q, 2), {0});
  rows.present = shape[2];
  if (!n.has(3) || n.value(3).shape.size() != 4 || n.value(3).shape[2].IsConst(0)) return rows;
  rows.buffer = n.value(3).shape[2];
  if (!n.has(6)) return absl::InvalidArgumentError("total_sequence_length is left out");
  KILN_ASSIGN_OR_RETURN(const Shape total, n.ContentOrSymbols(6, "total_sequence_length"));
  if (total.size() != 1)
    return absl::InvalidArgumentError("total_sequence_length must have one element");
  rows.dense = shape[0].IsConst(1) && total[0] == rows.buffer + shape[2];
  rows.present = Dim::Max(rows.buffer, total[0]);
  const auto number = [&](int k) { return w.To(w.Reshape(n.in(k), {-1}), DType::kI64); };
  const ValueId length = n.Op("shape", {q}, {{"start", int64_t{2}}, {"end", int64_t{3}}});
  const ValueId one = n.Scalar(DType::kI64, 1);
  const ValueId before = n.Op("sub", {w.Add(number(5), one), length});
  const ValueId prompt = n.Op("equal", {number(6), length});
  rows.past = w.Unsqueeze(n.Op("where", {prompt, n.Scalar(DType::kI64, 0), before}), {1});
  rows.places = w.Add(rows.past, rows.places);
  return rows;
}

// The keys (or values) of every row: those before, the new ones, and zeros. [batch, heads, present,
// size]
ValueId Present(Writer& w, ValueId before, ValueId more, const RowPlaces& rows) {
  NodeView& n = w.n;
  if (!rows.past.valid()) return more;
  const ValueId all = w.Concat({before, more}, 2);
  if (rows.dense || !all.valid()) return all;
  const Shape shape = ShapeOf(n, all), added = ShapeOf(n, more);
  const ValueId place = Coordinates(n, rows.present, 1, 2);
  const ValueId behind = n.Op("sub", {place, rows.past});  // [batch, present]
  const ValueId zero = n.Scalar(DType::kI64, 0);
  const ValueId is_new = n.Op("greater_equal", {behind, zero});
  const ValueId counts = n.Op("less", {behind, ExtentOf(n, more, 2, DType::kI64)});
  const ValueId from =
      n.Op("where", {is_new, w.Add(behind, ExtentOf(n, before, 2, DType::kI64)), place});
  const ValueId kept = n.Op("where", {counts, from, zero});
  const ValueId indices =
      n.Op("expand", {w.Unsqueeze(kept, {1})}, {{"shape", DimsValue({shape[0], shape[1], 1})}});
  const ValueId taken = n.Op("take", {all, indices}, {{"batch", int64_t{2}}});
  return n.Op("where", {w.Unsqueeze(counts, {1, 3}), taken, w.Scalar(taken, 0)});
}

absl::Status GroupQueryAttention(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 11));
  const int64_t heads = n.Int("num_heads", 0), groups = n.Int("kv_num_heads", 0);
  if (heads <= 0 || groups <= 0 || heads % groups != 0)
    return absl::InvalidArgumentError("num_heads and kv_num_heads do not go together");
  for (const char* off : {"smooth_softmax", "qk_output"}) {
    if (n.Int(off, 0) != 0) return absl::UnimplementedError(absl::StrCat(off, " is not supported"));
  }
  const int64_t window = n.Int("local_window_size", -1);
  if (n.has(1) != n.has(2)) return absl::InvalidArgumentError("keys or values are left out");
  if (!n.has(5)) return absl::InvalidArgumentError("seqlens_k is left out");
  if (n.has(9) || n.has(10))
    return absl::UnimplementedError("input 9 and beyond are not supported");
  Writer w{n};
  ValueId q = n.in(0), k = n.in(1), v = n.in(2);
  if (!n.has(1)) {  // all three in one row
    if (n.rank(0) != 3) return absl::InvalidArgumentError("queries are not of rank 3");
    const Dim size = n.value(0).shape[2].FloorDiv(heads + 2 * groups);
    q = w.Slice(n.in(0), 2, 0, size * heads);
    k = w.Slice(n.in(0), 2, size * heads, size * (heads + groups));
    v = w.Slice(n.in(0), 2, size * (heads + groups), size * (heads + 2 * groups));
  }
  Heads h = {SplitHeads(w, q, heads), SplitHeads(w, k, groups), SplitHeads(w, v, groups)};
  KILN_RETURN_IF_ERROR(n.status());
  if (n.has(3) != n.has(4)) return absl::InvalidArgumentError("past keys or values are left out");
  KILN_ASSIGN_OR_RETURN(const RowPlaces rows, PlacesOfRows(w, h.q));
  if (n.Int("do_rotary", 0) != 0) {
    KILN_ASSIGN_OR_RETURN(const int64_t half, HalfOf(n, n.in(7)));
    KILN_RETURN_IF_ERROR(RequireShape(n, n.in(8), n.value(7).shape, "the table of sines"));
    const bool interleaved = n.Int("rotary_interleaved", 0) != 0;
    const ValueId cos = w.Unsqueeze(w.Gather(n.in(7), rows.places), {1});
    const ValueId sin = w.Unsqueeze(w.Gather(n.in(8), rows.places), {1});
    h.q = Rotate(w, h.q, cos, sin, half, interleaved);
    h.k = Rotate(w, h.k, cos, sin, half, interleaved);
  } else {
    n.Ignore("rotary_interleaved");
  }
  h.k = Present(w, n.in(3), h.k, rows);
  h.v = Present(w, n.in(4), h.v, rows);
  KILN_RETURN_IF_ERROR(n.status());
  if (n.wants(1)) KILN_RETURN_IF_ERROR(n.Give(1, h.k));
  if (n.wants(2)) KILN_RETURN_IF_ERROR(n.Give(2, h.v));
  // Key j counts for the query at position i if i - window < j <= i and j is within the row.
  const ValueId i = w.Unsqueeze(rows.places, {1, 3});
  const ValueId j = w.Unsqueeze(w.Count(h.k, 2), {0, 1, 2});
  ValueId keep = n.Op("less_equal", {j, i});
  if (window > 0)
    keep = n.Op(
        "and",
        {keep, n.Op("greater",
                    {j, n.Op("sub", {i, n.Scalar(DType::kI64, static_cast<double>(window))})})});
  const ValueId last =
      w.Unsqueeze(n.Op("reshape", {w.To(n.in(5), DType::kI64)}, {{"shape", Ints{-1}}}), {1, 2, 3});
  keep = n.Op("and", {keep, n.Op("less_equal", {j, last})});
  h.k = RepeatHeads(w, h.k, heads / groups);
  h.v = RepeatHeads(w, h.v, heads / groups);
  const ValueId bias = MaskBias(w, keep, -std::numeric_limits<float>::infinity());
  KILN_ASSIGN_OR_RETURN(const double scale, ScaleOf(n, h.q));
  return Done(n, JoinHeads(w, Attend(w, h, scale, bias, n.Float("softcap", 0))));
}

// ---- convolution, quantised weights

absl::Status FusedConv(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 4));
  if (n.Text("auto_pad", "NOTSET") != "NOTSET")
    return absl::UnimplementedError("auto_pad is not supported");
  n.Ignore("kernel_shape");
  const size_t spatial = static_cast<size_t>(std::max(2, n.rank(1))) - 2;
  std::vector<ValueId> inputs = {n.in(0), n.in(1)};
  if (n.has(2)) inputs.push_back(n.in(2));
  ValueId y = n.Op("conv", std::move(inputs),
                   {{"strides", n.Ints("strides", Ints(spatial, 1))},
                    {"pads", n.Ints("pads", Ints(2 * spatial, 0))},
                    {"dilations", n.Ints("dilations", Ints(spatial, 1))},
                    {"group", n.Int("group", 1)}});
  Writer w{n};
  if (n.has(3)) y = w.Add(y, n.in(3));
  const std::string activation = n.Text("activation", "");
  const std::vector<double> p = n.Floats("activation_params");
  const auto param = [&](size_t k, double otherwise) { return k < p.size() ? p[k] : otherwise; };
  if (activation.empty()) return Done(n, y);
  if (activation == "Relu") return n.Emit("relu", {y});
  if (activation == "Tanh") return n.Emit("tanh", {y});
  if (activation == "Sigmoid") return n.Emit("sigmoid", {y});
  if (activation == "LeakyRelu") return n.Emit("leaky_relu", {y}, {{"alpha", param(0, 0.01)}});
  if (activation == "HardSigmoid")
    return n.Emit("hard_sigmoid", {y}, {{"alpha", param(0, 0.2)}, {"beta", param(1, 0.5)}});
  if (activation == "Clip")
    return n.Emit(
        "min", {n.Op("max", {y, w.Scalar(y, param(0, -3.4e38))}), w.Scalar(y, param(1, 3.4e38))});
  return absl::UnimplementedError(absl::StrCat("activation \"", activation, "\" is not supported"));
}

// Weights [N, blocks, block * bits / 8] of low order first, each block with a scale and a zero
// point, become a dense matrix [K, N] when the model is read.
absl::Status MatMulNBits(NodeView& n) {
  n.Ignore("accuracy_level");
  KILN_RETURN_IF_ERROR(n.Need(3, 6));
  const int64_t k = n.Int("K", 0), cols = n.Int("N", 0), bits = n.Int("bits", 4),
                block = n.Int("block_size", 0);
  if (k <= 0 || cols <= 0 || block < 16 || block > (int64_t{1} << 31) ||
      (bits != 2 && bits != 4 && bits != 8) || k > (int64_t{1} << 31) ||
      cols > (int64_t{1} << 31) || k * cols > (int64_t{1} << 31))
    return absl::InvalidArgumentError(
        absl::StrCat("K is ", k, ", N ", cols, ", bits ", bits, ", block_size ", block));
  if (n.has(4)) return absl::UnimplementedError("input g_idx is not supported");
  if (!n.value(1).constant || !n.value(2).constant || (n.has(3) && !n.value(3).constant))
    return absl::UnimplementedError("the weights must be constants");
  const int64_t blocks = (k + block - 1) / block, row = blocks * block * bits / 8,
                zeros = (blocks * bits + 7) / 8;
  const Tensor weights = Dense(*n.value(1).constant), scales = Dense(*n.value(2).constant);
  const bool packed = n.has(3) && n.value(3).type == DType::kU8;
  if (weights.size_bytes() != cols * row || scales.num_elements() != cols * blocks ||
      (n.has(3) && n.value(3).constant->num_elements() != cols * (packed ? zeros : blocks)))
    return absl::InvalidArgumentError("weights, scales or zero points have the wrong size");
  const Tensor zero = n.has(3) ? Dense(*n.value(3).constant) : Tensor();
  const auto* bytes = static_cast<const uint8_t*>(weights.data());
  const auto number = [bits](const uint8_t* data, int64_t i) {
    const int64_t at = i * bits;
    return (data[at / 8] >> (at % 8)) & ((1 << bits) - 1);
  };
  KILN_ASSIGN_OR_RETURN(Tensor dense, n.NewTensor(n.value(0).type, {k, cols}));
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t b = i / block;
      double point = 1 << (bits - 1);
      if (packed) point = number(static_cast<const uint8_t*>(zero.data()) + c * zeros, b);
      if (n.has(3) && !packed) point = ReadFloat(zero, c * blocks + b);
      const float scale = static_cast<float>(ReadFloat(scales, c * blocks + b));
      WriteFloat(dense, i * cols + c,
                 static_cast<float>(number(bytes + c * row, i) - point) * scale);
    }
  }
  const ValueId matrix = n.Constant(std::move(dense));
  if (!n.has(5)) return n.Emit("matmul", {n.in(0), matrix});
  KILN_RETURN_IF_ERROR(RequireShape(n, n.in(5), {cols}, "bias"));
  return n.Emit("add", {n.Op("matmul", {n.in(0), matrix}), n.in(5)});
}

constexpr Converter kContribRows[] = {
    {"SimplifiedLayerNormalization", kOldestOpset, SimplifiedLayerNormalization},
    {"com.microsoft.Attention", kOldestOpset, Attention},
    {"com.microsoft.BiasGelu", kOldestOpset, BiasGelu},
    {"com.microsoft.EmbedLayerNormalization", kOldestOpset, EmbedLayerNormalization},
    {"com.microsoft.FastGelu", kOldestOpset, FastGelu},
    {"com.microsoft.FusedConv", kOldestOpset, FusedConv},
    {"com.microsoft.FusedMatMul", kOldestOpset, FusedMatMul},
    {"com.microsoft.Gelu", kOldestOpset, Gelu},
    {"com.microsoft.GroupQueryAttention", kOldestOpset, GroupQueryAttention},
    {"com.microsoft.MatMulNBits", kOldestOpset, MatMulNBits},
    {"com.microsoft.MultiHeadAttention", kOldestOpset, MultiHeadAttention},
    {"com.microsoft.QuickGelu", kOldestOpset, QuickGelu},
    {"com.microsoft.RotaryEmbedding", kOldestOpset, RotaryEmbedding},
    {"com.microsoft.SkipLayerNormalization", kOldestOpset, SkipLayerNormalization},
    {"com.microsoft.SkipSimplifiedLayerNormalization", kOldestOpset,
     SkipSimplifiedLayerNormalization},
};

}  // namespace

std::span<const Converter> ContribConverters() { return kContribRows; }

}  // namespace kiln::onnx
