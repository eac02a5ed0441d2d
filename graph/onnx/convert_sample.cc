// SPDX-License-Identifier: Apache-2.0
// Sampling between elements: Resize and Upsample, axis by axis, and GridSample at places that data
// give.
//
// Along an axis, output place o lies at the input coordinate x(o). Its value is the sum over taps k
// of weight((k - x) * s) times the element at k, with a kernel of width 2 (linear) or 4 (cubic),
// which s < 1 widens when `antialias` is asked for; or, for nearest, one element. Coordinates and
// weights are nodes of the graph, so that they follow extents that are not known at import.
//
// ONNX leaves open how coordinates are rounded, and a nearest element often hangs on it: 10
// elements by a scale of 0.7f are 6.99999988 exactly and 7 in f32. Resize does as ONNX Runtime
// does: f32 throughout, and extents that are whole where the specification has the product of scale
// and extent (align_corners). Values are held in f64 and rounded to f32 after each operation, which
// is f32 arithmetic on every executor, the f64 interpreter included.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/infer.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

constexpr DType kPlace = DType::kF64;  // of coordinates and weights

// Arithmetic on coordinates, held in kPlace; `in_f32`: every result is rounded to f32.
class Formula {
 public:
  explicit Formula(NodeView& n, bool in_f32 = false) : n_(n), in_f32_(in_f32) {}
  ValueId Number(double value) { return n_.Scalar(kPlace, value); }
  ValueId Add(ValueId a, ValueId b) { return Rounded(n_.Op("add", {a, b})); }
  ValueId Sub(ValueId a, ValueId b) { return Rounded(n_.Op("sub", {a, b})); }
  ValueId Mul(ValueId a, ValueId b) { return Rounded(n_.Op("mul", {a, b})); }
  ValueId Div(ValueId a, ValueId b) { return Rounded(n_.Op("div", {a, b})); }
  ValueId Plus(ValueId a, double b) { return Add(a, Number(b)); }
  ValueId Times(ValueId a, double b) { return Mul(a, Number(b)); }
  ValueId Min(ValueId a, ValueId b) { return n_.Op("min", {a, b}); }
  ValueId Max(ValueId a, ValueId b) { return n_.Op("max", {a, b}); }
  ValueId Where(ValueId c, ValueId a, ValueId b) { return n_.Op("where", {c, a, b}); }
  ValueId Less(ValueId a, ValueId b) { return n_.Op("less", {a, b}); }
  ValueId Apply(const char* op, ValueId a) { return n_.Op(op, {a}); }

 private:
  ValueId Rounded(ValueId x) { return in_f32_ ? Cast(n_, Cast(n_, x, DType::kF32), kPlace) : x; }

  NodeView& n_;
  const bool in_f32_;
};

struct Sampling {
  enum class Mode { kNearest, kLinear, kCubic } mode = Mode::kNearest;
  std::string place = "half_pixel", rounding = "round_prefer_floor";
  double cubic_a = -0.75, extrapolation = 0;
  bool antialias = false, exclude_outside = false;
};

// How one axis is resampled.
struct AxisScale {
  int64_t axis = 0;
  Dim out;
  std::optional<double> scale;  // nothing: out / in, of extents that are not known
  ValueId first, last;          // tf_crop_and_resize: the region, as fractions of the axis
};

// x(o) for all places of the axis: [out].
ValueId Places(NodeView& n, const Sampling& s, const AxisScale& a, ValueId in, ValueId scale) {
  Formula f(n, /*in_f32=*/true);
  const ValueId places = Coordinates(n, a.out, 0, 1);
  const ValueId o = Cast(n, places, kPlace);
  const ValueId out = ExtentOf(n, places, 0, kPlace);
  const ValueId one = n.Op("equal", {out, f.Number(1)});
  const ValueId ends = f.Plus(in, -1);
  if (s.place == "align_corners") {
    const ValueId at = f.Div(f.Mul(o, ends), f.Plus(out, -1));
    return f.Where(one, f.Number(0), at);
  }
  if (s.place == "asymmetric") return f.Div(o, scale);
  if (s.place == "tf_half_pixel_for_nn") return f.Div(f.Plus(o, 0.5), scale);
  if (s.place == "tf_crop_and_resize") {
    const ValueId span = f.Mul(f.Mul(o, f.Sub(a.last, a.first)), ends);
    const ValueId at = f.Add(f.Mul(a.first, ends), f.Div(span, f.Plus(out, -1)));
    return f.Where(one, f.Mul(f.Times(f.Add(a.first, a.last), 0.5), ends), at);
  }
  const ValueId shifted = f.Div(f.Plus(o, 0.5), scale);
  const ValueId half = f.Plus(shifted, -0.5);
  if (s.place == "pytorch_half_pixel") return f.Where(one, f.Number(0), half);
  if (s.place == "half_pixel_symmetric") {
    const ValueId shift = f.Sub(f.Number(1), f.Div(out, f.Mul(scale, in)));
    return f.Plus(f.Add(f.Mul(f.Times(in, 0.5), shift), shifted), -0.5);
  }
  return half;
}

// The kernel at distance d >= 0 of the taps.
ValueId Weight(NodeView& n, const Sampling& s, ValueId d) {
  Formula f(n);
  if (s.mode == Sampling::Mode::kLinear) return f.Max(f.Sub(f.Number(1), d), f.Number(0));
  const double a = s.cubic_a;
  const auto horner = [&](double c3, double c2, double c1, double c0) {
    return f.Plus(f.Mul(f.Plus(f.Mul(f.Plus(f.Times(d, c3), c2), d), c1), d), c0);
  };
  const ValueId near = horner(a + 2, -(a + 3), 0, 1);
  const ValueId far = horner(a, -5 * a, 8 * a, -4 * a);
  const ValueId tail = f.Where(f.Less(d, f.Number(2)), far, f.Number(0));
  return f.Where(n.Op("less_equal", {d, f.Number(1)}), near, tail);
}

ValueId NearestPlace(NodeView& n, const std::string& rounding, ValueId x) {
  Formula f(n);
  if (rounding == "round_prefer_floor") return f.Apply("ceil", f.Plus(x, -0.5));
  if (rounding == "round_prefer_ceil") return f.Apply("floor", f.Plus(x, 0.5));
  return f.Apply(rounding == "ceil" ? "ceil" : "floor", x);
}

// `at` kept within the axis, as coordinates.
ValueId Clamped(NodeView& n, ValueId at, ValueId in) {
  Formula f(n);
  return Cast(n, f.Max(f.Min(at, f.Plus(in, -1)), f.Number(0)), DType::kI64);
}

// x resampled along one axis; `x` has the type of the weights of the sum.
absl::StatusOr<ValueId> ResampleAxis(NodeView& n, ValueId x, const Sampling& s,
                                     const AxisScale& a) {
  Formula f(n);
  const int64_t rank = RankOf(n, x);
  const ValueId in = ExtentOf(n, x, a.axis, kPlace);
  ValueId scale;
  if (a.scale) {
    scale = f.Number(*a.scale);
  } else {
    scale =
        Formula(n, /*in_f32=*/true).Div(ExtentOf(n, Coordinates(n, a.out, 0, 1), 0, kPlace), in);
  }
  const ValueId places = Places(n, s, a, in, scale);
  const Attrs along = {{"axis", a.axis}};
  ValueId y;
  if (s.mode == Sampling::Mode::kNearest) {
    const ValueId at = NearestPlace(n, s.rounding, places);
    y = n.Op("gather", {x, Clamped(n, at, in)}, along);
  } else {
    double narrow = 1;
    if (s.antialias) {
      if (!a.scale) return absl::UnimplementedError("antialias needs extents that are known");
      narrow = std::min(*a.scale, 1.0);
    }
    const double reach = s.mode == Sampling::Mode::kLinear ? 1 : 2;
    const double first = std::floor(-reach / narrow) + 1;
    const auto taps = static_cast<int64_t>(2 - 2 * first);
    if (!(narrow > 0) || taps > 65536)
      return absl::UnimplementedError("the scale is too small for antialias");
    const ValueId base = f.Plus(f.Apply("ceil", places), -1);  // base < x <= base + 1
    const ValueId k = f.Plus(Cast(n, Coordinates(n, taps, 0, 2), kPlace), first);
    const ValueId at = f.Add(base, k);  // [taps, out]
    ValueId weight = Weight(n, s, f.Apply("abs", f.Times(f.Sub(at, places), narrow)));
    if (s.exclude_outside) {
      const ValueId outside =
          n.Op("or", {f.Less(at, f.Number(0)), n.Op("greater_equal", {at, in})});
      weight = f.Where(outside, f.Number(0), weight);
    }
    if (s.exclude_outside || s.antialias)
      weight = f.Div(weight, Reduce(n, "reduce_sum", weight, {0}));
    const ValueId taken = n.Op("gather", {x, Clamped(n, at, in)}, along);
    Axes behind = AxesFrom(2, rank - a.axis + 1);
    const ValueId factors = Cast(n, Unsqueeze(n, weight, std::move(behind)), TypeOf(n, x));
    y = Reduce(n, "reduce_sum", n.Op("mul", {taken, factors}), {a.axis}, false);
  }
  if (s.place == "tf_crop_and_resize") {
    const ValueId outside =
        n.Op("or", {f.Less(places, f.Number(0)), f.Less(f.Plus(in, -1), places)});
    y = n.Op("where",
             {OverAxis(n, outside, a.axis, rank), n.Scalar(TypeOf(n, x), s.extrapolation), y});
  }
  KILN_RETURN_IF_ERROR(n.status());
  return y;
}

absl::Status EmitSampled(NodeView& n, const Sampling& s, const std::vector<AxisScale>& axes) {
  const DType type = n.value(0).type;
  const bool nearest = s.mode == Sampling::Mode::kNearest;
  ValueId x = nearest ? n.in(0) : Cast(n, n.in(0), IsFloat(type) ? ComputeType(type) : DType::kF64);
  for (const AxisScale& axis : axes) {
    KILN_ASSIGN_OR_RETURN(x, ResampleAxis(n, x, s, axis));
  }
  // Deployed runtimes cut what is left of a whole number in plain linear sums; the sum's own
  // rounding must not make 34.99999 of 35.
  const bool cut = s.mode == Sampling::Mode::kLinear && !s.antialias;
  if (!nearest && !IsFloat(type)) x = cut ? Cast(n, x, DType::kF32) : n.Op("round", {x});
  return n.Emit("cast", {x}, {{"to", type}});
}

// ---- scales and sizes

// floor(extent * scale), of a product in f32. Of an extent that is not known, the product must be
// exact; a guard says up to where it is.
absl::StatusOr<Dim> Scaled(NodeView& n, const Dim& extent, double scale) {
  if (!(scale > 0 && scale <= 65536)) {
    return absl::InvalidArgumentError(absl::StrCat("scale ", scale, " is not above 0"));
  }
  if (const auto number = extent.constant())
    return Dim(static_cast<int64_t>(static_cast<float>(*number) * static_cast<float>(scale)));
  int exponent = 0;
  auto factor = static_cast<int64_t>(std::ldexp(std::frexp(scale, &exponent), 24));
  for (exponent -= 24; factor % 2 == 0; factor /= 2) ++exponent;  // scale = factor * 2^exponent
  constexpr int64_t kExact = int64_t{1} << 24, kLeast = 4096;
  if (factor > kExact / kLeast || exponent < -40) {
    return absl::UnimplementedError(
        absl::StrCat("scale ", scale, " of an extent that is not known, ", extent.ToString()));
  }
  n.Assume(Guard::AtLeast(Dim(kExact / factor) - extent, 0));
  if (exponent >= 0) return extent * (factor << exponent);
  return (extent * factor).FloorDiv(int64_t{1} << -exponent);
}

// All axes that change. `axes` are those that scales, sizes and the region are about.
absl::StatusOr<std::vector<AxisScale>> ByScales(NodeView& n, const Axes& axes,
                                                const std::vector<double>& scales) {
  if (scales.size() != axes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", scales.size(), " scales for ", axes.size(), " axes"));
  }
  std::vector<AxisScale> all;
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisScale a;
    a.axis = axes[i];
    const Dim extent = n.value(0).shape[static_cast<size_t>(axes[i])];
    a.scale = static_cast<float>(scales[i]);
    KILN_ASSIGN_OR_RETURN(a.out, Scaled(n, extent, *a.scale));
    all.push_back(a);
  }
  return all;
}

absl::StatusOr<std::vector<AxisScale>> BySizes(NodeView& n, const Axes& axes, const Shape& sizes) {
  if (sizes.size() != axes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", sizes.size(), " sizes for ", axes.size(), " axes"));
  }
  const std::string policy = n.Text("keep_aspect_ratio_policy", "stretch");
  std::vector<AxisScale> all;
  double common = policy == "not_larger" ? std::numeric_limits<double>::infinity() : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    AxisScale a;
    a.axis = axes[i];
    a.out = sizes[i];
    const auto in = n.value(0).shape[static_cast<size_t>(axes[i])].constant();
    const auto out = sizes[i].constant();
    if (in && out && *in > 0) a.scale = static_cast<float>(*out) / static_cast<float>(*in);
    if (policy != "stretch") {
      if (!a.scale) return absl::UnimplementedError("keep_aspect_ratio_policy needs known extents");
      common = policy == "not_larger" ? std::min(common, *a.scale) : std::max(common, *a.scale);
    }
    all.push_back(a);
  }
  if (policy == "stretch") return all;
  for (AxisScale& a : all) {
    const auto in = static_cast<float>(*n.value(0).shape[static_cast<size_t>(a.axis)].constant());
    a.scale = common;
    a.out = Dim(static_cast<int64_t>(std::round(static_cast<float>(common) * in)));
  }
  return all;
}

// Repeating every element by a whole factor needs no coordinates.
std::optional<std::vector<int64_t>> WholeFactors(const NodeView& n, const Sampling& s,
                                                 const std::vector<AxisScale>& axes) {
  const bool plain = s.mode == Sampling::Mode::kNearest &&
                     ((s.place == "asymmetric" && s.rounding == "floor") ||
                      (s.place == "half_pixel" && s.rounding.rfind("round_prefer_", 0) == 0));
  if (!plain) return std::nullopt;
  std::vector<int64_t> factors(static_cast<size_t>(n.rank(0)), 1);
  for (const AxisScale& a : axes) {
    const Dim& in = n.value(0).shape[static_cast<size_t>(a.axis)];
    std::optional<int64_t> factor;
    if (a.out == in) {
      factor = 1;
    } else if (!in.IsConst(0)) {
      if (const std::optional<Dim> whole = a.out.DivideExactly(in)) factor = whole->constant();
    }
    if (!factor || *factor < 1 || *factor > 1024) return std::nullopt;
    if (a.scale && *a.scale != static_cast<double>(*factor)) return std::nullopt;
    factors[static_cast<size_t>(a.axis)] = *factor;
  }
  return factors;
}

// Whether an axis keeps its extent, and with it its elements. Resampling at whole coordinates would
// give others: 0 times infinity is NaN. Where extents decide, what holds for large ones is assumed.
bool KeepsExtent(NodeView& n, const AxisScale& a) {
  const Dim in = n.value(0).shape[static_cast<size_t>(a.axis)];
  if (a.scale.value_or(1) != 1) return false;
  if (a.out == in) return true;
  const Guard same = Guard::Same(a.out, in);
  if (same.Static() == false || !n.IsTold(same)) return false;
  if (n.Stands(same) || HoldsForLarge(same)) {
    n.Assume(same);
    return true;
  }
  n.Assume(same.kind == Guard::Kind::kEqual ? Guard::NotEqual(same.left, same.number)
                                            : Guard::NotEqual(a.out - in, 0));
  return false;
}

absl::Status Sample(NodeView& n, const Sampling& s, std::vector<AxisScale> axes) {
  if (const auto factors = WholeFactors(n, s, axes))
    return n.Emit("upsample", {n.in(0)}, {{"scales", *factors}});
  if (s.place != "tf_crop_and_resize") {
    std::erase_if(axes, [&](const AxisScale& a) { return KeepsExtent(n, a); });
  }
  return EmitSampled(n, s, axes);
}

absl::StatusOr<Sampling::Mode> ModeOf(const std::string& mode) {
  if (mode == "nearest") return Sampling::Mode::kNearest;
  if (mode == "linear" || mode == "bilinear") return Sampling::Mode::kLinear;
  if (mode == "cubic") return Sampling::Mode::kCubic;
  return absl::InvalidArgumentError(absl::StrCat("mode \"", mode, "\" is not known"));
}

absl::Status Upsample(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  Sampling s;
  s.place = "asymmetric";
  s.rounding = "floor";
  KILN_ASSIGN_OR_RETURN(s.mode, ModeOf(n.Text("mode", "nearest")));
  std::vector<double> scales = n.Floats("scales");
  if (n.has(1)) {
    KILN_ASSIGN_OR_RETURN(scales, n.ConstFloats(1, "scales"));
  }
  KILN_ASSIGN_OR_RETURN(std::vector<AxisScale> axes, ByScales(n, AxesFrom(0, n.rank(0)), scales));
  return Sample(n, s, std::move(axes));
}

absl::StatusOr<Sampling> ReadSampling(NodeView& n) {
  Sampling s;
  KILN_ASSIGN_OR_RETURN(s.mode, ModeOf(n.Text("mode", "nearest")));
  s.place = n.Text("coordinate_transformation_mode", "half_pixel");
  s.rounding = n.Text("nearest_mode", "round_prefer_floor");
  s.cubic_a = n.Float("cubic_coeff_a", -0.75);
  s.extrapolation = n.Float("extrapolation_value", 0);
  s.antialias = n.Int("antialias", 0) != 0;
  s.exclude_outside = n.Int("exclude_outside", 0) != 0;
  for (const char* known : {"half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
                            "pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn"}) {
    if (s.place == known) return s;
  }
  return absl::UnimplementedError(
      absl::StrCat("coordinate_transformation_mode ", s.place, " is not supported"));
}

absl::Status Resize(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 4));
  KILN_ASSIGN_OR_RETURN(const Sampling s, ReadSampling(n));
  n.Ignore("keep_aspect_ratio_policy");
  const int64_t rank = n.rank(0);
  KILN_ASSIGN_OR_RETURN(const Axes about, n.Axes(n.Ints("axes", AxesFrom(0, rank)), rank));
  std::vector<AxisScale> axes;
  // An empty tensor stands for operands that are left out, before operator set 13.
  const bool by_sizes =
      n.has(3) && !(n.value(3).shape.size() == 1 && n.value(3).shape[0].IsConst(0));
  if (by_sizes) {
    KILN_ASSIGN_OR_RETURN(const Shape sizes, n.Content(3, "sizes"));
    KILN_ASSIGN_OR_RETURN(axes, BySizes(n, about, sizes));
  } else {
    KILN_ASSIGN_OR_RETURN(const std::vector<double> scales, n.ConstFloats(2, "scales"));
    KILN_ASSIGN_OR_RETURN(axes, ByScales(n, about, scales));
  }
  if (s.place == "tf_crop_and_resize") {
    if (!n.has(1)) return absl::InvalidArgumentError("tf_crop_and_resize needs a region");
    const auto count = static_cast<int64_t>(about.size());
    for (int64_t i = 0; i < count; ++i) {
      const auto part = [&](int64_t k) {
        return Cast(n, Reshape(n, Slice(n, n.in(1), 0, k, k + 1), {}), kPlace);
      };
      axes[static_cast<size_t>(i)].first = part(i);
      axes[static_cast<size_t>(i)].last = part(count + i);
    }
  }
  return Sample(n, s, std::move(axes));
}

// Scales alone, with the coordinates of Upsample.
absl::Status ResizeByScales(NodeView& n) { return Upsample(n); }

// ---- grid sample

struct Grid {
  Sampling sampling;
  enum class Padding { kZeros, kBorder, kReflection } padding = Padding::kZeros;
  bool align_corners = false;
};

// An element of one axis that counts at a place, and how much. `inside` is valid if the element may
// lie outside and is zero there.
struct GridTap {
  ValueId index, weight, inside;
};

// v mirrored at `low` and `high` until it lies between them.
ValueId Reflected(NodeView& n, ValueId v, ValueId low, ValueId high) {
  Formula f(n);
  const ValueId range = f.Sub(high, low);
  const ValueId below = f.Less(v, low);
  const ValueId beyond = f.Where(below, f.Sub(low, v), f.Sub(v, high));
  const ValueId periods = f.Apply("floor", f.Div(beyond, range));
  const ValueId rest = f.Sub(beyond, f.Mul(periods, range));
  const ValueId even =
      n.Op("equal", {n.Op("mod", {periods, f.Number(2)}, {{"fmod", int64_t{1}}}), f.Number(0)});
  const ValueId from_low = n.Op("equal", {even, below});
  const ValueId mirrored = f.Where(from_low, f.Add(low, rest), f.Sub(high, rest));
  const ValueId outside = n.Op("or", {below, f.Less(high, v)});
  return f.Where(outside, mirrored, v);
}

// `place` and the taps around it, for an axis of extent `in`.
std::vector<GridTap> GridTaps(NodeView& n, const Grid& grid, ValueId at, ValueId in) {
  Formula f(n);
  const ValueId low = f.Number(grid.align_corners ? 0 : -0.5);
  const ValueId high = f.Plus(in, grid.align_corners ? -1 : -0.5);
  const ValueId last = f.Plus(in, -1);
  const auto clamp = [&](ValueId v) { return f.Max(f.Min(v, last), f.Number(0)); };
  const bool nearest = grid.sampling.mode == Sampling::Mode::kNearest;
  if (nearest) at = f.Apply("round", at);
  if (grid.padding == Grid::Padding::kReflection) at = Reflected(n, at, low, high);
  if (grid.padding == Grid::Padding::kBorder) {
    const ValueId outside = n.Op("or", {f.Less(at, low), f.Less(high, at)});
    at = f.Where(outside, clamp(at), at);
  }
  const bool cubic = grid.sampling.mode == Sampling::Mode::kCubic;
  const ValueId base = f.Apply("floor", at);
  std::vector<GridTap> taps;
  for (int k = cubic ? -1 : 0; k <= (nearest ? 0 : cubic ? 2 : 1); ++k) {
    const ValueId place = k == 0 ? base : f.Plus(base, k);
    GridTap tap;
    ValueId kept = place;
    if (grid.padding == Grid::Padding::kZeros) {
      const ValueId outside = n.Op("or", {f.Less(place, f.Number(0)), f.Less(last, place)});
      tap.inside = n.Op("not", {outside});
    } else if (grid.padding == Grid::Padding::kReflection) {
      kept = Reflected(n, place, low, high);  // a half at the border counts for the element inside
    }
    tap.index = Cast(n, clamp(kept), DType::kI64);
    if (!nearest) tap.weight = Weight(n, grid.sampling, f.Apply("abs", f.Sub(place, at)));
    taps.push_back(tap);
  }
  return taps;
}

// The sum over one tap of each axis, from axis `axis` on; x is [N, in..., C].
ValueId SumTaps(NodeView& n, ValueId x, const std::vector<std::vector<GridTap>>& axes, size_t axis,
                std::vector<ValueId> inputs, ValueId weight, ValueId inside) {
  if (axis == axes.size()) {
    ValueId y = n.Op("take", std::move(inputs), {{"batch", int64_t{1}}});
    const DType type = TypeOf(n, x);
    if (inside.valid()) y = n.Op("where", {Unsqueeze(n, inside, {-1}), y, n.Scalar(type, 0)});
    return weight.valid() ? n.Op("mul", {y, Unsqueeze(n, Cast(n, weight, type), {-1})}) : y;
  }
  ValueId sum;
  const auto joined = [&](const char* op, ValueId a, ValueId b) {
    return a.valid() && b.valid() ? n.Op(op, {a, b}) : a.valid() ? a : b;
  };
  for (const GridTap& tap : axes[axis]) {
    std::vector<ValueId> more = inputs;
    more.push_back(tap.index);
    const ValueId part =
        SumTaps(n, x, axes, axis + 1, std::move(more), joined("mul", weight, tap.weight),
                joined("and", inside, tap.inside));
    sum = joined("add", sum, part);
  }
  return sum;
}

absl::StatusOr<Grid> ReadGrid(NodeView& n) {
  Grid grid;
  const std::string mode = n.Text("mode", "linear");
  KILN_ASSIGN_OR_RETURN(grid.sampling.mode, ModeOf(mode == "bicubic" ? "cubic" : mode));
  grid.align_corners = n.Int("align_corners", 0) != 0;
  const std::string padding = n.Text("padding_mode", "zeros");
  if (padding == "border") {
    grid.padding = Grid::Padding::kBorder;
  } else if (padding == "reflection") {
    grid.padding = Grid::Padding::kReflection;
  } else if (padding != "zeros") {
    return absl::InvalidArgumentError(absl::StrCat("padding_mode \"", padding, "\" is not known"));
  }
  return grid;
}

// Coordinates in [-1, 1], the last axis of the input first, for each place of the output.
absl::Status GridSample(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  KILN_ASSIGN_OR_RETURN(const Grid grid, ReadGrid(n));
  const int64_t rank = n.rank(0), spatial = rank - 2;
  if (spatial < 1 || spatial > 3 || n.rank(1) != rank)
    return absl::InvalidArgumentError(
        "needs one to three spatial dims, and a grid of the same rank");
  KILN_RETURN_IF_ERROR(RequireExtent(n, n.in(1), 0, n.value(0).shape[0], "grid"));
  KILN_RETURN_IF_ERROR(RequireExtent(n, n.in(1), rank - 1, spatial, "grid"));
  Formula f(n);
  const DType stored = n.value(0).type;
  const bool nearest = grid.sampling.mode == Sampling::Mode::kNearest;
  Axes last = {0}, back = {0, rank - 1};
  for (int64_t i = 0; i < spatial; ++i) last.push_back(i + 2);
  for (int64_t i = 0; i < spatial; ++i) back.push_back(i + 1);
  last.push_back(1);
  const DType type = nearest ? stored : IsFloat(stored) ? ComputeType(stored) : DType::kF32;
  const ValueId x = Transpose(n, Cast(n, n.in(0), type), last);
  std::vector<std::vector<GridTap>> axes;
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t column = spatial - 1 - i;
    const ValueId unit =
        Cast(n, Squeeze(n, Slice(n, n.in(1), rank - 1, column, column + 1), {rank - 1}), kPlace);
    const ValueId in = ExtentOf(n, n.in(0), i + 2, kPlace);
    const ValueId shifted = f.Plus(unit, 1);
    const ValueId at = grid.align_corners ? f.Mul(f.Times(shifted, 0.5), f.Plus(in, -1))
                                          : f.Times(f.Plus(f.Mul(shifted, in), -1), 0.5);
    axes.push_back(GridTaps(n, grid, at, in));
  }
  const ValueId y = Transpose(n, SumTaps(n, x, axes, 0, {x}, {}, {}), back);
  return n.Emit("cast", {y}, {{"to", stored}});
}

constexpr Converter kSampleRows[] = {
    {"GridSample", 16, GridSample},
    {"Resize", 10, ResizeByScales},
    {"Resize", 11, Resize},
    {"Upsample", 7, Upsample},
};

}  // namespace

std::span<const Converter> SampleConverters() { return kSampleRows; }

}  // namespace kiln::onnx
