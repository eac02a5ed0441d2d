// SPDX-License-Identifier: Apache-2.0
// Products, pools and Resize. Sums are in long double: their results are near a runtime's, not
// equal to it (IsRounded in evaluate.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/onnx/model_writer.h"
#include "tests/symbols/evaluate_parts.h"

namespace kiln::symbols {
namespace {

// ---- products
// A sum of products that f32 holds exactly in whichever order; `exact` becomes false if it does
// not.
class Sum {
 public:
  explicit Sum(bool& exact) : exact_(exact) {}
  void Add(long double term) {
    sum_ += term;
    size_ += std::abs(term);
    exact_ = exact_ && size_ < 0x1p24L;
  }
  long double value() const { return sum_; }

 private:
  bool& exact_;
  long double sum_ = 0, size_ = 0;
};

Evaluated Product(Array array, bool exact) {
  return exact ? One(std::move(array)) : Undefined("a sum that is rounded");
}

Evaluated Gemm(const ModelNode& node, const Inputs& in) {
  const Array &a = *in[0], &b = *in[1];
  if (a.shape.size() != 2 || b.shape.size() != 2) return Wrong("not matrices");
  const bool trans_a = Attr(node, "transA", 0) != 0, trans_b = Attr(node, "transB", 0) != 0;
  const int64_t rows = a.shape[trans_a ? 1 : 0], inner = a.shape[trans_a ? 0 : 1];
  const int64_t columns = b.shape[trans_b ? 0 : 1];
  if (inner != b.shape[trans_b ? 1 : 0]) return Wrong("inner extents differ");
  const Array* bias = in.size() > 2 ? in[2] : nullptr;
  if (bias != nullptr) {
    Ints shape;
    if (!BroadcastShape({rows, columns}, bias->shape, shape) || shape != Ints{rows, columns})
      return Wrong("the bias does not broadcast");
  }
  if (IsBad({rows, columns})) return Bad({rows, columns});
  bool exact = true;
  Array out = Filled(kFloat, {rows, columns}, [&](const Ints& at) {
    Sum sum(exact);
    if (bias != nullptr) sum.Add(BroadcastAt(*bias, at));
    for (int64_t k = 0; k < inner; ++k) {
      sum.Add(ElementAt(a, trans_a ? Ints{k, at[0]} : Ints{at[0], k}) *
              ElementAt(b, trans_b ? Ints{at[1], k} : Ints{k, at[1]}));
    }
    return sum.value();
  });
  return Product(std::move(out), exact);
}

// Of two operands of two axes or more.
Evaluated MatMul(const Inputs& in) {
  const Array &a = *in[0], &b = *in[1];
  const size_t p = a.shape.size(), q = b.shape.size();
  if (p < 2 || q < 2) return Undefined("vectors");
  if (a.shape[p - 1] != b.shape[q - 2]) return Wrong("inner extents differ");
  Ints shape;
  if (!BroadcastShape(Ints(a.shape.begin(), a.shape.end() - 2),
                      Ints(b.shape.begin(), b.shape.end() - 2), shape))
    return Wrong("batches do not broadcast");
  const size_t batch = shape.size();
  shape.push_back(a.shape[p - 2]);
  shape.push_back(b.shape[q - 1]);
  if (IsBad(shape)) return Bad(shape);
  bool exact = true;
  Array out = Filled(kFloat, shape, [&](const Ints& at) {
    Sum sum(exact);
    Ints in_a = at, in_b = at;
    for (int64_t k = 0; k < a.shape[p - 1]; ++k) {
      in_a[batch + 1] = in_b[batch] = k;
      sum.Add(BroadcastAt(a, in_a) * BroadcastAt(b, in_b));
    }
    return sum.value();
  });
  return Product(std::move(out), exact);
}

// ---- pools
// One spatial axis of a pool.
struct PoolAxis {
  int64_t in = 0, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0, out = 0;
  int64_t span() const { return (kernel - 1) * dilation + 1; }
};

bool ReadPool(const ModelNode& node, const Ints& shape, std::vector<PoolAxis>& axes) {
  const size_t spatial = shape.size() - 2;
  const Ints kernel = ListAttr(node, "kernel_shape", {});
  const Ints strides = ListAttr(node, "strides", Ints(spatial, 1));
  const Ints dilations = ListAttr(node, "dilations", Ints(spatial, 1));
  const Ints pads = ListAttr(node, "pads", Ints(2 * spatial, 0));
  const std::string same = TextAttr(node, "auto_pad", "NOTSET");
  const bool up = Attr(node, "ceil_mode", 0) != 0;
  for (size_t i = 0; i < spatial; ++i) {
    PoolAxis a{shape[2 + i], kernel[i], strides[i], dilations[i], pads[i], pads[spatial + i], 0};
    if (same == "SAME_UPPER" || same == "SAME_LOWER") {
      a.out = (a.in + a.stride - 1) / a.stride;
      const int64_t pad = std::max<int64_t>(0, (a.out - 1) * a.stride + a.span() - a.in);
      a.before = same == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
      a.after = pad - a.before;
    } else {
      const int64_t room = a.in + a.before + a.after - a.span();
      if (room < 0) return false;
      a.out = (room + (up ? a.stride - 1 : 0)) / a.stride + 1;
      if (up && (a.out - 1) * a.stride >= a.in + a.before) --a.out;
    }
    if (a.out < 1) return false;
    axes.push_back(a);
  }
  return true;
}

Evaluated Pool(const ModelNode& node, const Inputs& in) {
  const Array& x = *in[0];
  if (x.shape.size() < 3) return Wrong("no spatial axes");
  std::vector<PoolAxis> axes;
  if (!ReadPool(node, x.shape, axes)) return Undefined("a window larger than its axis");
  const bool mean = node.op == "AveragePool", padding = Attr(node, "count_include_pad", 0) != 0;
  Ints shape = {x.shape[0], x.shape[1]}, taps;
  for (const PoolAxis& a : axes) {
    shape.push_back(a.out);
    taps.push_back(a.kernel);
  }
  bool empty = false;
  Array out = Filled(kFloat, shape, [&](const Ints& at) {
    long double sum = 0, most = -std::numeric_limits<long double>::infinity();
    int64_t inside = 0, padded = 0;
    Ints tap(axes.size(), 0);
    do {
      Ints from = {at[0], at[1]};
      bool is_inside = true, is_padded = true;
      for (size_t i = 0; i < axes.size(); ++i) {
        const PoolAxis& a = axes[i];
        from.push_back(at[2 + i] * a.stride + tap[i] * a.dilation - a.before);
        is_inside = is_inside && from.back() >= 0 && from.back() < a.in;
        is_padded = is_padded && from.back() < a.in + a.after;
      }
      padded += is_padded;
      if (!is_inside) continue;
      ++inside;
      sum += ElementAt(x, from);
      most = std::max(most, ElementAt(x, from));
    } while (Next(tap, taps));
    empty = empty || inside == 0;
    return mean ? sum / static_cast<long double>(padding ? padded : inside) : most;
  });
  if (empty) return Undefined("a window within the padding");
  return One(std::move(out));
}

// ---- Resize
// The coordinate of place `o` in the input, in f32 as deployed runtimes have it.
float Coordinate(const std::string& mode, float o, float scale, int64_t in, int64_t out) {
  if (mode == "asymmetric") return o / scale;
  if (mode == "align_corners")
    return out == 1 ? 0 : o * static_cast<float>(in - 1) / static_cast<float>(out - 1);
  const float half = (o + 0.5F) / scale - 0.5F;
  return mode == "pytorch_half_pixel" && out == 1 ? 0 : half;
}

// The whole coordinate nearest to x.
int64_t Rounded(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  return static_cast<int64_t>(mode == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                          : std::ceil(x - 0.5));
}

// `x` with one axis resampled to `out` elements.
Array Resample(const ModelNode& node, const Array& x, size_t axis, int64_t out, float scale) {
  const std::string place = TextAttr(node, "coordinate_transformation_mode", "half_pixel");
  const std::string rounding = TextAttr(node, "nearest_mode", "round_prefer_floor");
  const bool nearest = TextAttr(node, "mode", "nearest") == "nearest";
  const int64_t in = x.shape[axis];
  Ints shape = x.shape;
  shape[axis] = out;
  const auto at_place = [&](Ints at, int64_t c) {
    at[axis] = std::clamp<int64_t>(c, 0, in - 1);
    return ElementAt(x, at);
  };
  return Filled(x.type, shape, [&](const Ints& at) {
    const double c = Coordinate(place, static_cast<float>(at[axis]), scale, in, out);
    if (nearest) return at_place(at, Rounded(rounding, c));
    const auto low = static_cast<int64_t>(std::floor(c));
    const long double part = c - static_cast<long double>(low);
    return at_place(at, low) * (1 - part) + at_place(at, low + 1) * part;
  });
}

Evaluated Resize(const ModelNode& node, const Inputs& in) {
  const bool by_sizes = in.size() > 3 && in[3] != nullptr;
  const Array& given = by_sizes ? *in[3] : *in[2];
  if (given.elements.size() != in[0]->shape.size()) return Wrong("counts");
  Array x = *in[0];
  std::vector<std::pair<int64_t, float>> axes;
  Ints shape;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    const auto extent = static_cast<float>(x.shape[i]);
    int64_t out = by_sizes ? Int(given.elements[i]) : 0;
    auto scale = static_cast<float>(by_sizes ? 1 : given.elements[i]);
    if (by_sizes && out < 0) return Wrong("negative extent");
    if (!by_sizes && !(scale > 0)) return Wrong("scale");
    if (!by_sizes && !(scale < 1000)) return Undefined("scale");
    if (by_sizes) scale = static_cast<float>(out) / extent;
    if (!by_sizes) out = static_cast<int64_t>(extent * scale);
    if (x.shape[i] == 0 || out == 0) return Undefined("an axis without elements");
    axes.emplace_back(out, scale);
    shape.push_back(out);
  }
  if (IsBad(shape)) return Bad(shape);
  for (size_t i = 0; i < axes.size(); ++i) x = Resample(node, x, i, axes[i].first, axes[i].second);
  return One(std::move(x));
}

}  // namespace

std::optional<Evaluated> EvaluateWindow(const ModelNode& node, const Inputs& in) {
  if (node.op == "Gemm") return Gemm(node, in);
  if (node.op == "MatMul") return MatMul(in);
  if (node.op == "MaxPool" || node.op == "AveragePool") return Pool(node, in);
  if (node.op == "Resize") return Resize(node, in);
  return std::nullopt;
}

bool IsRounded(const ModelNode& node) {
  const bool linear =
      node.op == "Resize" && node.texts.count("mode") > 0 && node.texts.at("mode") == "linear";
  return linear || node.op == "AveragePool";
}

}  // namespace kiln::symbols
