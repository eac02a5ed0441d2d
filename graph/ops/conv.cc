// SPDX-License-Identifier: Apache-2.0
// Convolution and its transpose over any number of spatial axes; inputs x [N, C, ...], w, and
// optionally a bias [M]. Convolution of bytes, whose inputs are x, w and their zero points.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/by_kernels.h"
#include "graph/ops/bytes.h"
#include "graph/ops/ops.h"
#include "graph/ops/window.h"

namespace kiln::ops {
namespace {

std::vector<int64_t> Spatial(const std::vector<int64_t>& shape) {
  return {shape.begin() + 2, shape.end()};
}

// `out_channels` is the extent that the bias must have.
absl::Status CheckFloats(InferContext& c, const Dim& out_channels) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  if (!c.has_input(2)) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(RequireRank(c, 2, 1));
  return c.Require(c.shape(2)[0], out_channels, "extents of the bias and the output channels");
}

absl::StatusOr<Window> CheckedWindow(InferContext& c, int weight = 1) {
  const Shape& w = c.shape(weight);
  const std::optional<std::vector<int64_t>> kernel = Constant(Shape(w.begin() + 2, w.end()));
  if (!kernel)
    return absl::UnimplementedError(
        absl::StrCat("the extents of the kernel ", ToString(w), " must be numbers"));
  if (IntAttr(c.node(), "group") < 1)
    return absl::InvalidArgumentError("attribute \"group\" is below 1");
  return WindowOf(c.node(), *kernel);
}

absl::Status RequireRanks(InferContext& c, int weight = 1) {
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 0, 3));
  return RequireRank(c, weight, c.shape(0).size());
}

absl::Status SetConvOutput(InferContext& c, DType type, int weight = 1) {
  const Shape& x = c.shape(0);
  const Shape& w = c.shape(weight);
  KILN_ASSIGN_OR_RETURN(const Window window, CheckedWindow(c, weight));
  const int64_t group = IntAttr(c.node(), "group");
  KILN_RETURN_IF_ERROR(
      c.Require(x[1], w[1] * group, "channels of the input and of the weight times group"));
  const Guard divides = Guard::Divisible(w[0], group);
  if (divides.Static() == false) {
    return absl::InvalidArgumentError(
        absl::StrCat(w[0].ToString(), " output channels do not divide by group ", group));
  }
  c.Assume(divides);
  Shape shape = ConvPlaces(window, x);
  shape.insert(shape.begin(), {x[0], w[0]});
  c.SetOutput(0, type, std::move(shape));
  return absl::OkStatus();
}

absl::Status InferConv(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRanks(c));
  KILN_RETURN_IF_ERROR(CheckFloats(c, c.shape(1)[0]));
  return SetConvOutput(c, c.type(0));
}

// Rows of the innermost axis are the inner loop: for each tap of the kernel, a weight times a
// strided row of the input.
void ConvolvePlane(const Window& w, const std::vector<int64_t>& in, const std::vector<int64_t>& out,
                   const double* x, const double* weight, double* y) {
  const size_t last = w.rank() - 1;
  const int64_t row_in = in[last];
  const int64_t row_out = out[last];
  const std::vector<int64_t> outer(out.begin(), out.end() - 1);
  Window rows = w;
  rows.kernel.pop_back();
  const std::vector<int64_t> outer_in(in.begin(), in.end() - 1);
  std::vector<int64_t> at(last, 0);
  int64_t row = 0;
  do {
    ForEachTap(rows, outer_in, at, [&](int64_t kernel_row, int64_t input_row) {
      for (int64_t k = 0; k < w.kernel[last]; ++k) {
        const double factor = weight[kernel_row * w.kernel[last] + k];
        const double* from = x + input_row * row_in;
        double* to = y + row * row_out;
        const int64_t shift = k * w.dilation[last] - w.before[last];
        const int64_t step = w.stride[last];
        const int64_t first = shift >= 0 ? 0 : (step - 1 - shift) / step;
        const int64_t end =
            shift >= row_in ? 0 : std::min(row_out, (row_in - 1 - shift) / step + 1);
        for (int64_t o = first; o < end; ++o) to[o] += factor * from[o * step + shift];
      }
    });
    ++row;
  } while (Next(at, outer));
}

// Axes of extent 1 with a kernel of 1 do nothing; without them rows are long. One axis stays.
void DropUnitAxes(Window& w, std::vector<int64_t>& in, std::vector<int64_t>& out) {
  for (size_t i = w.rank(); i-- > 0 && w.rank() > 1;) {
    if (in[i] != 1 || out[i] != 1 || w.kernel[i] != 1 || w.before[i] != 0) continue;
    for (std::vector<int64_t>* list :
         {&w.kernel, &w.stride, &w.dilation, &w.before, &w.after, &in, &out}) {
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

absl::Status ReferenceConv(const Node& node, std::span<const Tensor> inputs,
                           std::span<Tensor> outputs) {
  const std::vector<int64_t>& x = inputs[0].shape();
  const std::vector<int64_t>& w = inputs[1].shape();
  const std::vector<int64_t>& y = outputs[0].shape();
  KILN_ASSIGN_OR_RETURN(Window window, WindowOf(node, Spatial(w)));
  if (outputs[0].num_elements() == 0) return absl::OkStatus();
  const int64_t group_out = w[0] / IntAttr(node, "group");
  const int64_t in_plane = Count(Spatial(x)), out_plane = Count(Spatial(y)),
                kernel = Count(Spatial(w));
  std::vector<int64_t> in = Spatial(x), out = Spatial(y);
  DropUnitAxes(window, in, out);
  const auto* from = static_cast<const double*>(inputs[0].data());
  const auto* weights = static_cast<const double*>(inputs[1].data());
  const auto* bias = inputs.size() > 2 ? static_cast<const double*>(inputs[2].data()) : nullptr;
  auto* to = static_cast<double*>(outputs[0].data());
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t m = 0; m < y[1]; ++m) {
      double* plane = to + (n * y[1] + m) * out_plane;
      std::fill(plane, plane + out_plane, bias != nullptr ? bias[m] : 0.0);
      for (int64_t k = 0; k < w[1]; ++k) {
        const int64_t channel = m / group_out * w[1] + k;
        ConvolvePlane(window, in, out, from + (n * x[1] + channel) * in_plane,
                      weights + (m * w[1] + k) * kernel, plane);
      }
    }
  }
  return absl::OkStatus();
}

// ---- conv_integer: inputs x, w, the zero point of x, those of w: one, or one for each channel.
absl::Status RequireOneOrChannels(InferContext& c, int input, const Dim& channels) {
  if (!c.has_input(input) || c.shape(input).empty()) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(RequireRank(c, input, 1));
  return c.Require(c.shape(input)[0], channels,
                   absl::StrCat("extents of input ", input, " and the output channels"));
}

absl::Status InferConvInteger(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRanks(c));
  KILN_RETURN_IF_ERROR(RequireBytes(c, 0, 2));
  KILN_RETURN_IF_ERROR(RequireBytes(c, 1, 3));
  if (c.has_input(2)) KILN_RETURN_IF_ERROR(RequireRank(c, 2, 0));
  KILN_RETURN_IF_ERROR(RequireOneOrChannels(c, 3, c.shape(1)[0]));
  return SetConvOutput(c, DType::kI32);
}

Tensor AsF64(const Tensor& whole) {
  Tensor x = Tensor::Allocate(DType::kF64, whole.shape());
  const auto* from = static_cast<const int64_t*>(whole.data());
  std::copy(from, from + whole.num_elements(), static_cast<double*>(x.data()));
  return x;
}

// The sums for an output of this shape, in f64, where they are exact; zero points may be null.
absl::StatusOr<Tensor> WholeSums(const Node& node, const Tensor& x, const Tensor* x_zero,
                                 const Tensor& w, const Tensor* w_zero,
                                 const std::vector<int64_t>& shape) {
  Tensor sums[] = {Tensor::Allocate(DType::kF64, shape)};
  if (sums[0].num_elements() == 0) return sums[0];
  Tensor by_channel;
  if (w_zero != nullptr && w_zero->num_elements() != 1) {
    std::vector<int64_t> own(w.shape().size(), 1);
    own[0] = w_zero->num_elements();
    by_channel = Tensor::View(w_zero->data(), DType::kI64, own, {}, w_zero->owner());
    w_zero = &by_channel;
  }
  const Tensor centered[] = {AsF64(Centered(x, x_zero)), AsF64(Centered(w, w_zero))};
  KILN_RETURN_IF_ERROR(ReferenceConv(node, centered, sums));
  return sums[0];
}

absl::Status ReferenceConvInteger(const Node& node, std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs) {
  KILN_ASSIGN_OR_RETURN(const Tensor sums,
                        WholeSums(node, inputs[0], InputOrNull(node, inputs, 2), inputs[1],
                                  InputOrNull(node, inputs, 3), outputs[0].shape()));
  const auto* from = static_cast<const double*>(sums.data());
  std::copy(from, from + sums.num_elements(), static_cast<int64_t*>(outputs[0].data()));
  return absl::OkStatus();
}

// ---- qlinear_conv: inputs x, its scale and zero point, w likewise, those of the result, a bias.
absl::Status InferQLinearConv(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRanks(c, 3));
  KILN_RETURN_IF_ERROR(RequireBytes(c, 0, 2));
  KILN_RETURN_IF_ERROR(RequireBytes(c, 3, 5));
  KILN_RETURN_IF_ERROR(RequireBytes(c, 7, 7));
  if (TypeAttr(c.node(), "to") != c.type(7)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute \"to\" is ",
                                                   Name(TypeAttr(c.node(), "to")), ", input 7 is ",
                                                   Name(c.type(7)), "; they must be the same"));
  }
  const auto is_f32 = [](DType type) { return type == DType::kF32; };
  for (const int scale : {1, 4, 6}) KILN_RETURN_IF_ERROR(RequireType(c, scale, is_f32, "f32"));
  KILN_RETURN_IF_ERROR(RequireType(
      c, 8, [](DType type) { return type == DType::kI32; }, "i32"));
  KILN_RETURN_IF_ERROR(RequireRank(c, 2, 0));
  KILN_RETURN_IF_ERROR(RequireRank(c, 8, 1));
  const Dim channels = c.shape(3)[0];
  for (const int input : {1, 4, 5, 6, 7, 8})
    KILN_RETURN_IF_ERROR(RequireOneOrChannels(c, input, channels));
  return SetConvOutput(c, c.type(7), 3);
}

absl::Status ReferenceQLinearConv(const Node& node, std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs) {
  KILN_ASSIGN_OR_RETURN(const Tensor sums, WholeSums(node, inputs[0], &inputs[2], inputs[3],
                                                     &inputs[5], outputs[0].shape()));
  const Tensor* const bias = InputOrNull(node, inputs, 8);
  const auto scale = [&](size_t k, int64_t m) {
    return static_cast<const double*>(inputs[k].data())[inputs[k].num_elements() == 1 ? 0 : m];
  };
  const auto whole = [](const Tensor& tensor, int64_t m) {
    return static_cast<const int64_t*>(tensor.data())[tensor.num_elements() == 1 ? 0 : m];
  };
  const std::vector<int64_t>& y = sums.shape();
  const int64_t plane = Count(Spatial(y));
  const bool is_signed = TypeAttr(node, "to") == DType::kI8;
  for (int64_t i = 0; i < sums.num_elements(); ++i) {
    const int64_t m = i / plane % y[1];
    const auto sum =
        static_cast<int32_t>(static_cast<int64_t>(static_cast<double*>(sums.data())[i]));
    const double biased = sum + (bias == nullptr ? 0.0 : static_cast<double>(whole(*bias, m)));
    const double scaled = biased * scale(1, m) * scale(4, m) / scale(6, m);
    const double stored = std::nearbyint(scaled) + static_cast<double>(whole(inputs[7], m));
    const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    static_cast<int64_t*>(outputs[0].data())[i] =
        std::isnan(stored) ? 0 : static_cast<int64_t>(std::clamp(stored, low, high));
  }
  return absl::OkStatus();
}

// ---- conv_transpose: weight [C, M / group, ...]; every input element adds its multiple of the
// kernel to the output.
//
// The spatial extents: those that the attribute "extents" says, which lie within a stride of the
// least, or what output_padding adds to the least.
absl::StatusOr<Shape> SpreadPlaces(const Node& node, const Window& window, const Shape& x) {
  std::vector<int64_t> more = IntsAttr(node, "output_padding");
  const bool given = HasAttr(node, "extents");
  const Shape extents = given ? DimsAttr(node, "extents") : Shape();
  if (given && (!more.empty() || extents.size() != window.rank())) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute \"extents\" has ", extents.size(), " entries for ", window.rank(),
                     " axes and output_padding ", more.size(), "; one of the two may be given"));
  }
  if (more.empty()) more.assign(window.rank(), 0);
  if (more.size() != window.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("attribute \"output_padding\" has ", more.size(),
                                                   " entries for ", window.rank(), " axes"));
  }
  Shape places;
  for (size_t i = 0; i < window.rank(); ++i) {
    const int64_t span = window.dilation[i] * (window.kernel[i] - 1) + 1;
    const Dim least =
        (x[2 + i] - 1) * window.stride[i] + (span - window.before[i] - window.after[i]);
    if (given) {
      const Dim beyond = extents[i] - least;
      if (beyond.constant()) more[i] = *beyond.constant();
    }
    if (more[i] < 0 || more[i] >= window.stride[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat("output padding ", more[i], " is not below stride ", window.stride[i]));
    }
    places.push_back(given ? extents[i] : least + more[i]);
  }
  return places;
}

absl::Status InferConvTranspose(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRanks(c));
  const Shape& x = c.shape(0);
  const Shape& w = c.shape(1);
  const int64_t group = IntAttr(c.node(), "group");
  KILN_RETURN_IF_ERROR(CheckFloats(c, w[1] * group));
  KILN_ASSIGN_OR_RETURN(const Window window, CheckedWindow(c));
  KILN_RETURN_IF_ERROR(c.Require(x[1], w[0], "channels of the input and of the weight"));
  const Guard divides = Guard::Divisible(w[0], group);
  if (divides.Static() == false) {
    return absl::InvalidArgumentError(
        absl::StrCat(w[0].ToString(), " input channels do not divide by group ", group));
  }
  c.Assume(divides);
  KILN_ASSIGN_OR_RETURN(Shape shape, SpreadPlaces(c.node(), window, x));
  shape.insert(shape.begin(), {x[0], w[1] * group});
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

// The transpose of a convolution from [y] to [x]: tap (o, k) of that convolution reads y where this
// one writes it.
absl::Status ReferenceConvTranspose(const Node& node, std::span<const Tensor> inputs,
                                    std::span<Tensor> outputs) {
  const std::vector<int64_t>& x = inputs[0].shape();
  const std::vector<int64_t>& w = inputs[1].shape();
  const std::vector<int64_t>& y = outputs[0].shape();
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, Spatial(w)));
  const int64_t group_in = x[1] / IntAttr(node, "group");
  const int64_t in_plane = Count(Spatial(x)), out_plane = Count(Spatial(y)),
                kernel = Count(Spatial(w));
  const auto* from = static_cast<const double*>(inputs[0].data());
  const auto* weights = static_cast<const double*>(inputs[1].data());
  const auto* bias = inputs.size() > 2 ? static_cast<const double*>(inputs[2].data()) : nullptr;
  auto* to = static_cast<double*>(outputs[0].data());
  for (int64_t i = 0; i < y[0] * y[1]; ++i) {
    std::fill(to + i * out_plane, to + (i + 1) * out_plane, bias != nullptr ? bias[i % y[1]] : 0.0);
  }
  if (inputs[0].num_elements() == 0 || outputs[0].num_elements() == 0) return absl::OkStatus();
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t c = 0; c < x[1]; ++c) {
      for (int64_t m = 0; m < w[1]; ++m) {
        const double* source = from + (n * x[1] + c) * in_plane;
        const double* taps = weights + (c * w[1] + m) * kernel;
        double* plane = to + (n * y[1] + c / group_in * w[1] + m) * out_plane;
        std::vector<int64_t> at(window.rank(), 0);
        int64_t flat = 0;
        do {
          ForEachTap(window, Spatial(y), at,
                     [&](int64_t k, int64_t place) { plane[place] += source[flat] * taps[k]; });
          ++flat;
        } while (Next(at, Spatial(x)));
      }
    }
  }
  return absl::OkStatus();
}

constexpr AttrSpec kConvAttrs[] = {
    {"strides", AttrKind::kInts, false, 0, "", "steps of the window; absent: 1"},
    {"pads", AttrKind::kInts, false, 0, "", "zeros before each axis, then after each; absent: 0"},
    {"dilations", AttrKind::kInts, false, 0, "", "distances between taps; absent: 1"},
    {"group", AttrKind::kInt, false, 1, nullptr,
     "channels are split into this many groups that do not mix"}};
constexpr AttrSpec kQLinearConvAttrs[] = {
    kConvAttrs[0],
    kConvAttrs[1],
    kConvAttrs[2],
    kConvAttrs[3],
    {"to", AttrKind::kType, true, 0, nullptr, "the type of the result: that of its zero point"}};
constexpr AttrSpec kConvTransposeAttrs[] = {kConvAttrs[0],
                                            kConvAttrs[1],
                                            kConvAttrs[2],
                                            kConvAttrs[3],
                                            {"output_padding", AttrKind::kInts, false, 0, "",
                                             "extra extent at the end of each axis; absent: 0"},
                                            {"extents", AttrKind::kDims, false, 0, nullptr,
                                             "spatial extents of the result; absent: what "
                                             "output_padding says"}};

constexpr OpDef kConvOps[] = {
    {.name = "conv",
     .doc = "Convolution (not flipped); weight [M, C / group, ...].",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 3,
     .attrs = kConvAttrs,
     .infer = InferConv,
     .by_kernels = ConvByKernels,
     .reference = ReferenceConv,
     .onnx = {{"Conv"}},
     .test = {-2, 2},
     .witness = "onnx node tests: conv",
     .gradient = {.rule = gradient::Conv}},
    {.name = "conv_integer",
     .doc = "conv of bytes less their zero points, inputs 2 and 3: one, or "
            "of the weight one for each channel; sums of 32 bits that wrap.",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 4,
     .attrs = kConvAttrs,
     .infer = InferConvInteger,
     .by_kernels = ConvIntegerByKernels,
     .reference = ReferenceConvInteger,
     .onnx = {{"ConvInteger", 10}},
     .witness = "onnx node tests: convinteger",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "qlinear_conv",
     .doc = "conv_integer with bytes for sums: clip(round((sum + bias) * x_scale * w_scale / "
            "y_scale) + y_zero) in f64; inputs x, x_scale, x_zero, w, w_scale, w_zero, y_scale, "
            "y_zero, bias.",
     .kind = OpKind::kLibrary,
     .min_inputs = 8,
     .max_inputs = 9,
     .attrs = kQLinearConvAttrs,
     .infer = InferQLinearConv,
     .reference = ReferenceQLinearConv,
     .onnx = {{"QLinearConv", 10}},
     .witness = "onnx node tests: qlinearconv",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "conv_transpose",
     .doc = "The transpose of a convolution; weight [C, M / group, ...].",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 3,
     .attrs = kConvTransposeAttrs,
     .infer = InferConvTranspose,
     .by_kernels = ConvTransposeByKernels,
     .reference = ReferenceConvTranspose,
     .onnx = {{"ConvTranspose"}},
     .test = {-2, 2},
     .witness = "onnx node tests: convtranspose",
     .gradient = {.rule = gradient::ConvTranspose}},
};

}  // namespace

std::span<const OpDef> ConvOps() { return kConvOps; }

}  // namespace kiln::ops
