// SPDX-License-Identifier: Apache-2.0
// Windows, Fourier transforms and other operators whose tables are computed when the model is read.
// A transform of a known length is a product with its matrix.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/onnx/tensor_proto.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::onnx {
namespace {

// Elements of a table that is made at import.
constexpr int64_t kMaxTable = int64_t{1} << 24;
constexpr double kTwoPi = 2 * std::numbers::pi;

absl::Status Done(NodeView& n, ValueId y) { return n.Emit("identity", {y}); }

// Whether a table of these extents, from 0 on, is not too large.
bool IsTable(std::initializer_list<int64_t> extents) {
  int64_t most = kMaxTable;
  for (const int64_t extent : extents) {
    if (extent > most) return false;
    most /= std::max<int64_t>(extent, 1);
  }
  return true;
}

absl::StatusOr<int64_t> OneInt(NodeView& n, int k, absl::string_view what, int64_t least) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, n.ConstInts(k, what));
  if (values.size() != 1 || values[0] < least)
    return absl::InvalidArgumentError(absl::StrCat(what, " must be one number from ", least));
  return values[0];
}

absl::StatusOr<ValueId> Table(NodeView& n, DType type, std::vector<int64_t> shape,
                              const std::function<double(int64_t)>& element) {
  KILN_ASSIGN_OR_RETURN(Tensor table, n.NewTensor(type, std::move(shape), /*table=*/true));
  for (int64_t i = 0; i < table.num_elements(); ++i) WriteFloat(table, i, element(i));
  return n.Constant(std::move(table));
}

// ---- windows: a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)

absl::Status Window(NodeView& n, double a0, double a1, double a2) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const bool periodic = n.Int("periodic", 1) != 0;
  KILN_ASSIGN_OR_RETURN(const DType type, ToDType(n.Int("output_datatype", 1)));
  KILN_ASSIGN_OR_RETURN(const Shape content, n.Content(0, "size"));
  if (content.size() != 1) return absl::InvalidArgumentError("size must be one number");
  const ValueId at = Cast(n, Coordinates(n, content[0], 0, 1), DType::kF64);
  const auto number = [&](double value) { return n.Scalar(DType::kF64, value); };
  const ValueId like = n.Op("constant_of_shape", {}, {{"shape", DimsValue({content[0]})}});
  ValueId length = ExtentOf(n, like, 0, DType::kF64);
  if (!periodic) length = n.Op("sub", {length, number(1)});
  const ValueId angle = n.Op("div", {n.Op("mul", {at, number(kTwoPi)}), length});
  const ValueId once = n.Op("mul", {n.Op("cos", {angle}), number(a1)});
  const ValueId twice = n.Op("mul", {n.Op("cos", {n.Op("mul", {angle, number(2)})}), number(a2)});
  const ValueId y = n.Op("add", {n.Op("sub", {number(a0), once}), twice});
  return Done(n, Cast(n, y, type));
}
absl::Status HannWindow(NodeView& n) { return Window(n, 0.5, 0.5, 0); }
absl::Status HammingWindow(NodeView& n) { return Window(n, 25.0 / 46, 1 - 25.0 / 46, 0); }
absl::Status BlackmanWindow(NodeView& n) { return Window(n, 0.42, 0.5, 0.08); }

// ---- Fourier transforms

struct Transform {
  int64_t length = 0;  // of the transform
  int64_t given = 0;   // elements that are there; others are zero, and those beyond do not count
  int64_t results = 0;
  bool inverse = false;
};

// x [..., given, parts] to [..., results, 2]: the parts are real, or real and imaginary.
absl::StatusOr<ValueId> Fourier(NodeView& n, ValueId x, const Transform& t, int64_t parts) {
  const int64_t rows = std::min(t.given, t.length);
  if (!IsTable({rows, parts, t.results, 2}))
    return absl::UnimplementedError(
        absl::StrCat("a transform of length ", t.length, " is too long"));
  const DType type = TypeOf(n, x);
  const int64_t rank = RankOf(n, x);
  if (t.given > rows) x = Slice(n, x, rank - 2, 0, rows);
  const double sign = t.inverse ? 1 : -1,
               scale = t.inverse ? 1.0 / static_cast<double>(t.length) : 1;
  // Row (i, real or imaginary), column (k, real or imaginary) of the matrix.
  const absl::StatusOr<ValueId> matrix =
      Table(n, type, {rows * parts, t.results * 2}, [&](int64_t at) {
        const int64_t row = at / (t.results * 2), column = at % (t.results * 2);
        const int64_t periods = (row / parts) * (column / 2) % t.length;  // exact, unlike the angle
        const double angle =
            sign * kTwoPi * static_cast<double>(periods) / static_cast<double>(t.length);
        const bool imaginary = row % parts == 1, to_imaginary = column % 2 == 1;
        if (imaginary == to_imaginary) return scale * std::cos(angle);
        return imaginary ? -scale * std::sin(angle) : scale * std::sin(angle);
      });
  KILN_RETURN_IF_ERROR(n.status());
  KILN_RETURN_IF_ERROR(matrix.status());
  Shape flat = ShapeOf(n, x);
  flat.pop_back();
  flat.back() = rows * parts;
  const ValueId y = n.Op("matmul", {Reshape(n, x, flat), *matrix});
  flat.back() = t.results;
  flat.emplace_back(2);
  return Reshape(n, y, flat);
}

// The real signal of `length` elements whose transform begins with x [..., given, 2]; what is left
// out is the conjugate of what is there.
absl::StatusOr<ValueId> RealInverse(NodeView& n, ValueId x, const Transform& t) {
  const int64_t rows = std::min(t.given, t.length / 2 + 1);
  if (!IsTable({rows, 2, t.length}))
    return absl::UnimplementedError(
        absl::StrCat("a transform of length ", t.length, " is too long"));
  const DType type = TypeOf(n, x);
  if (t.given > rows) x = Slice(n, x, RankOf(n, x) - 2, 0, rows);
  const absl::StatusOr<ValueId> matrix = Table(n, type, {rows * 2, t.length}, [&](int64_t at) {
    const int64_t row = at / t.length / 2;
    const double angle = kTwoPi * static_cast<double>(row * (at % t.length) % t.length) /
                         static_cast<double>(t.length);
    const double times = row == 0 || 2 * row == t.length ? 1 : 2;
    const double part = at / t.length % 2 == 0 ? std::cos(angle) : -std::sin(angle);
    return times * part / static_cast<double>(t.length);
  });
  KILN_RETURN_IF_ERROR(n.status());
  KILN_RETURN_IF_ERROR(matrix.status());
  Shape flat = ShapeOf(n, x);
  flat.pop_back();
  flat.back() = rows * 2;
  const ValueId y = n.Op("matmul", {Reshape(n, x, flat), *matrix});
  flat.back() = t.length;
  flat.emplace_back(1);
  return Reshape(n, y, flat);
}

absl::Status DftAlong(NodeView& n, int64_t axis) {
  const int64_t rank = n.rank(0);
  if (rank < 2) return absl::InvalidArgumentError("the signal has no axis of parts");
  KILN_ASSIGN_OR_RETURN(axis, n.Axis(axis, rank));
  const auto parts = n.value(0).shape.back().constant();
  const auto given = n.value(0).shape[static_cast<size_t>(axis)].constant();
  if (axis == rank - 1 || !parts || *parts < 1 || *parts > 2)
    return ExtentsError({n.value(0).shape.back()},
                        "the last axis holds 1 or 2 parts, and is not transformed");
  if (!given)
    return ExtentsError(n.value(0).shape, "the extent of the transformed axis is not known");
  Transform t;
  t.given = t.length = *given;
  if (n.has(1)) {
    KILN_ASSIGN_OR_RETURN(t.length, OneInt(n, 1, "dft_length", 1));
  }
  t.inverse = n.Int("inverse", 0) != 0;
  const bool onesided = n.Int("onesided", 0) != 0;
  const bool to_real = onesided && t.inverse;
  if (to_real && !n.has(1)) t.length = 2 * (t.given - 1);
  if (t.length < 1) return absl::InvalidArgumentError("a transform of nothing");
  if (to_real && *parts != 2)
    return absl::InvalidArgumentError("onesided inverse transforms take complex signals");
  ValueId x = n.in(0);
  t.results = onesided ? t.length / 2 + 1 : t.length;
  Axes perm = AxesFrom(0, rank);
  std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(rank - 2)]);
  const bool moved = axis != rank - 2;
  if (moved) x = Transpose(n, x, perm);
  absl::StatusOr<ValueId> made = to_real ? RealInverse(n, x, t) : Fourier(n, x, t, *parts);
  if (!made.ok()) return made.status();
  ValueId y = *made;
  if (moved) y = Transpose(n, y, perm);
  return Done(n, y);
}

absl::Status Dft17(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  return DftAlong(n, n.Int("axis", 1));
}
absl::Status Dft20(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 3));
  int64_t axis = -2;
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(axis, OneInt(n, 2, "axis", INT64_MIN));
  }
  return DftAlong(n, axis);
}

absl::Status Stft(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 4));
  const bool onesided = n.Int("onesided", 1) != 0;
  KILN_ASSIGN_OR_RETURN(const int64_t step, OneInt(n, 1, "frame_step", 1));
  const Shape shape = n.value(0).shape;
  if (shape.size() < 2 || shape.size() > 3)
    return absl::InvalidArgumentError("the signal must be [batch, length, parts]");
  const int64_t parts = shape.size() == 2 ? 1 : shape[2].constant().value_or(0);
  if (parts != 1 && (parts != 2 || onesided))
    return ExtentsError(shape, "onesided transforms take real signals");
  int64_t frame = 0;
  if (n.has(3)) {
    KILN_ASSIGN_OR_RETURN(frame, OneInt(n, 3, "frame_length", 1));
  } else if (n.has(2)) {
    frame = n.value(2).shape.empty() ? 0 : n.value(2).shape[0].constant().value_or(0);
  }
  const auto length = shape[1].constant();
  if (frame < 1 || !length || *length < frame)
    return absl::UnimplementedError("the lengths of frames and signal must be known and fit");
  const int64_t frames = (*length - frame) / step + 1;
  if (!IsTable({frames, frame})) return absl::UnimplementedError("the frames are too many");
  KILN_ASSIGN_OR_RETURN(Tensor places, n.NewTensor(DType::kI64, {frames, frame}, /*table=*/true));
  for (int64_t i = 0; i < frames * frame; ++i)
    static_cast<int64_t*>(places.data())[i] = i / frame * step + i % frame;
  const ValueId signal = Reshape(n, n.in(0), {shape[0], shape[1], parts});
  ValueId x = n.Op("gather", {signal, n.Constant(std::move(places))}, {{"axis", int64_t{1}}});
  if (n.has(2)) x = n.Op("mul", {x, Unsqueeze(n, n.in(2), {1})});
  Transform t;
  t.given = t.length = frame;
  t.results = onesided ? frame / 2 + 1 : frame;
  KILN_RETURN_IF_ERROR(n.status());
  KILN_ASSIGN_OR_RETURN(const ValueId y, Fourier(n, x, t, parts));
  return Done(n, y);
}

absl::Status MelWeightMatrix(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(5, 5));
  KILN_ASSIGN_OR_RETURN(const DType type, ToDType(n.Int("output_datatype", 1)));
  KILN_ASSIGN_OR_RETURN(const int64_t bins, OneInt(n, 0, "num_mel_bins", 1));
  KILN_ASSIGN_OR_RETURN(const int64_t length, OneInt(n, 1, "dft_length", 1));
  KILN_ASSIGN_OR_RETURN(const int64_t rate, OneInt(n, 2, "sample_rate", 1));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> low, n.ConstFloats(3, "lower_edge_hertz"));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> high, n.ConstFloats(4, "upper_edge_hertz"));
  const int64_t rows = length / 2 + 1;
  if (low.size() != 1 || high.size() != 1 || !(low[0] >= 0) || !(high[0] >= low[0]))
    return absl::InvalidArgumentError("the edges must be two numbers from 0, in order");
  if (bins > kMaxTable / rows) return absl::UnimplementedError("the matrix is too large");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = mel(low[0]), step = (mel(high[0]) - first) / static_cast<double>(bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (first + step * static_cast<double>(i)) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  KILN_ASSIGN_OR_RETURN(Tensor matrix, n.NewTensor(type, {rows, bins}, /*table=*/true));
  std::memset(matrix.data(), 0, static_cast<size_t>(matrix.size_bytes()));
  const auto set = [&](int64_t row, int64_t bin, double value) {
    if (row >= 0 && row < rows) WriteFloat(matrix, row * bins + bin, value);
  };
  for (int64_t bin = 0; bin < bins; ++bin) {
    const auto at = static_cast<size_t>(bin);
    const int64_t left = edges[at], peak = edges[at + 1], right = edges[at + 2];
    if (peak == left) set(peak, bin, 1);
    for (int64_t i = std::max<int64_t>(left, 0); i <= peak && i < rows && peak > left; ++i)
      set(i, bin, static_cast<double>(i - left) / static_cast<double>(peak - left));
    for (int64_t i = std::max<int64_t>(peak, 0); i < right && i < rows && right > peak; ++i)
      set(i, bin, static_cast<double>(right - i) / static_cast<double>(right - peak));
  }
  return Done(n, n.Constant(std::move(matrix)));
}

// ---- places

// theta [batch, d, d + 1] times the points of a grid over [-1, 1]^d, innermost axis first.
absl::Status AffineGrid(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 2));
  const bool align = n.Int("align_corners", 0) != 0;
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> size, n.ConstInts(1, "size"));
  const auto d = static_cast<int64_t>(size.size()) - 2;
  if (d < 2 || d > 3 || n.rank(0) != 3)
    return absl::InvalidArgumentError("size must have 4 or 5 numbers, and theta 3 axes");
  int64_t points = 1;
  Shape shape = {n.value(0).shape[0]};
  for (int64_t i = 0; i < d; ++i) {
    const int64_t extent = size[static_cast<size_t>(i) + 2];
    if (extent < 1 || extent > kMaxTable / points)
      return absl::InvalidArgumentError(absl::StrCat("size has the extent ", extent));
    points *= extent;
    shape.emplace_back(extent);
  }
  shape.emplace_back(d);
  const absl::StatusOr<ValueId> grid =
      Table(n, TypeOf(n, n.in(0)), {d + 1, points}, [&](int64_t at) {
        const int64_t which = at / points;
        if (which == d) return 1.0;
        int64_t place = at % points;  // row major; coordinate 0 is that of the innermost axis
        for (int64_t i = d - 1; i > d - 1 - which; --i) place /= size[static_cast<size_t>(i) + 2];
        const int64_t extent = size[static_cast<size_t>(d - 1 - which) + 2];
        const auto x = static_cast<double>(place % extent), e = static_cast<double>(extent);
        if (align) return extent == 1 ? 0.0 : 2 * x / (e - 1) - 1;
        return (2 * x + 1) / e - 1;
      });
  KILN_RETURN_IF_ERROR(grid.status());
  const ValueId y = Transpose(n, n.Op("matmul", {n.in(0), *grid}), {0, 2, 1});
  return Done(n, Reshape(n, y, shape));
}

// Columns are put back, summed where they overlap: a transposed convolution whose weights are 1
// where tap and channel agree.
absl::Status Col2Im(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(3, 3));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> image, n.ConstInts(1, "image_shape"));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> block, n.ConstInts(2, "block_shape"));
  const size_t d = image.size();
  const Axes strides = n.Ints("strides", Axes(d, 1)), pads = n.Ints("pads", Axes(2 * d, 0)),
             dilations = n.Ints("dilations", Axes(d, 1));
  if (d < 1 || d > 3 || block.size() != d || strides.size() != d || pads.size() != 2 * d ||
      dilations.size() != d || n.rank(0) != 3)
    return absl::UnimplementedError("1 to 3 spatial axes are supported");
  constexpr int64_t kMost = 1 << 20;
  int64_t taps = 1;
  Axes counts, missing;
  for (size_t i = 0; i < d; ++i) {
    const bool small = block[i] >= 1 && block[i] <= kMost && image[i] >= 1 && image[i] <= kMost &&
                       strides[i] >= 1 && strides[i] <= kMost && dilations[i] >= 1 &&
                       dilations[i] <= kMost && pads[i] >= 0 && pads[i] <= kMost &&
                       pads[d + i] >= 0 && pads[d + i] <= kMost;
    const int64_t room =
        small ? image[i] + pads[i] + pads[d + i] - dilations[i] * (block[i] - 1) - 1 : -1;
    if (room < 0) return absl::InvalidArgumentError("blocks and image do not fit");
    counts.push_back(room / strides[i] + 1);
    missing.push_back(room % strides[i]);
    taps *= block[i];
    if (taps > 4096) return absl::UnimplementedError("the block is too large");
  }
  const Shape from = ShapeOf(n, n.in(0));
  const Dim channels = from[1].FloorDiv(taps);
  Shape columns = {from[0] * channels, taps}, result = {from[0], channels}, unit = {taps, 1};
  for (size_t i = 0; i < d; ++i) {
    columns.emplace_back(counts[i]);
    result.emplace_back(image[i]);
    unit.emplace_back(block[i]);
  }
  const absl::StatusOr<ValueId> weights =
      Table(n, TypeOf(n, n.in(0)), *Constant(unit),
            [&](int64_t at) { return at / taps == at % taps ? 1.0 : 0.0; });
  KILN_RETURN_IF_ERROR(weights.status());
  const ValueId y = n.Op("conv_transpose", {Reshape(n, n.in(0), columns), *weights},
                         {{"strides", strides},
                          {"pads", pads},
                          {"dilations", dilations},
                          {"output_padding", missing}});
  return Done(n, Reshape(n, y, result));
}

// The maxima go back to where they came from, which input 1 counts in the whole of the output.
absl::Status MaxUnpool(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(2, 3));
  const Axes kernel = n.Ints("kernel_shape");
  const size_t d = kernel.size();
  const Axes strides = n.Ints("strides", Axes(d, 1)), pads = n.Ints("pads", Axes(2 * d, 0));
  const Shape from = ShapeOf(n, n.in(0));
  if (d < 1 || from.size() != d + 2 || strides.size() != d || pads.size() != 2 * d)
    return absl::InvalidArgumentError("kernel_shape, strides or pads do not fit the input");
  KILN_RETURN_IF_ERROR(RequireShape(n, n.in(1), from, "indices"));
  Shape whole = {from[0], from[1]};
  for (size_t i = 0; i < d; ++i)
    whole.push_back((from[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[d + i]);
  Shape result = whole;
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(result, n.Content(2, "output_shape"));
    if (result.size() != whole.size())
      return absl::InvalidArgumentError("output_shape has the wrong number of extents");
    for (size_t i = 0; i < whole.size(); ++i) {
      const std::string why = absl::StrCat(
          "output_shape ", ToString(result),
          i < 2 ? " has other batches or channels than " : " is smaller than ", ToString(whole));
      KILN_RETURN_IF_ERROR(n.Require(
          i < 2 ? Guard::Same(result[i], whole[i]) : Guard::AtLeast(result[i] - whole[i], 0), why));
    }
  }
  const auto zeros = FilledTensor(TypeOf(n, n.in(0)), {1}, 0);
  const ValueId empty =
      n.Op("constant_of_shape", {}, {{"shape", DimsValue({Product(whole)})}, {"value", zeros}});
  const ValueId y = n.Op("scatter_elements", {empty, Reshape(n, n.in(1), {Product(from)}),
                                              Reshape(n, n.in(0), {Product(from)})});
  const ValueId image = Reshape(n, y, whole);
  if (!n.has(2)) return Done(n, image);
  Shape more = Shape(d + 2, 0);  // before all axes, then after
  for (size_t i = 0; i < d + 2; ++i) more.push_back(result[i] - whole[i]);
  return Done(n, n.Op("pad", {image}, {{"pads", DimsValue(more)}}));
}

// ---- determinants, by minors of the last rows: one for each set of columns

absl::Status Det(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  const int64_t rank = n.rank(0);
  const auto size = rank < 2 ? std::nullopt : n.value(0).shape.back().constant();
  if (!size || !(n.value(0).shape[static_cast<size_t>(rank) - 2] == n.value(0).shape.back()))
    return ExtentsError(n.value(0).shape, "the last two axes must be equal and known");
  constexpr int64_t kMost = 8;
  if (*size > kMost)
    return absl::UnimplementedError(
        absl::StrCat("matrices of ", *size, " rows; at most ", kMost, " are supported"));
  std::vector<ValueId> elements;  // each is read by many minors
  for (int64_t row = 0; row < *size; ++row) {
    const ValueId one_row = Slice(n, n.in(0), rank - 2, row, row + 1);
    for (int64_t column = 0; column < *size; ++column)
      elements.push_back(
          Squeeze(n, Slice(n, one_row, rank - 1, column, column + 1), {rank - 2, rank - 1}));
  }
  // minors[set]: the determinant of the last |set| rows in the columns of the set.
  std::vector<ValueId> minors(size_t{1} << *size);
  for (size_t set = 1; set < minors.size(); ++set) {
    const int64_t rows = std::popcount(set);
    ValueId sum;
    int64_t sign = 1;
    for (int64_t column = 0; column < *size; ++column) {
      const size_t bit = size_t{1} << column;
      if ((set & bit) == 0) continue;
      ValueId term = elements[static_cast<size_t>((*size - rows) * *size + column)];
      if (rows > 1) term = n.Op("mul", {term, minors[set ^ bit]});
      if (!sum.valid() && sign == 1) {
        sum = term;
      } else {
        sum = n.Op(sign > 0 ? "add" : "sub", {sum, term});
      }
      sign = -sign;
    }
    minors[set] = sum;
  }
  if (*size == 0) return absl::UnimplementedError("matrices without elements");
  return Done(n, minors.back());
}

constexpr Converter kSignalRows[] = {
    {"AffineGrid", kOldestOpset, AffineGrid},
    {"BlackmanWindow", kOldestOpset, BlackmanWindow},
    {"Col2Im", kOldestOpset, Col2Im},
    {"DFT", kOldestOpset, Dft17},
    {"DFT", 20, Dft20},
    {"Det", kOldestOpset, Det},
    {"HammingWindow", kOldestOpset, HammingWindow},
    {"HannWindow", kOldestOpset, HannWindow},
    {"MaxUnpool", kOldestOpset, MaxUnpool},
    {"MelWeightMatrix", kOldestOpset, MelWeightMatrix},
    {"STFT", kOldestOpset, Stft},
};

}  // namespace

std::span<const Converter> SignalConverters() { return kSignalRows; }

}  // namespace kiln::onnx
