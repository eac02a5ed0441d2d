// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/window_form.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "exec/library/shapes.h"

namespace kiln::cuda {
namespace {

using library::Operand;
using library::Request;
using library::WindowAxis;

constexpr size_t kSpatialAxes = 2;  // correctness: cuDNN has no tensors of fewer

absl::StatusOr<std::vector<int>> Narrow(const std::vector<int64_t>& values) {
  std::vector<int> narrow;
  for (const int64_t value : values) {
    if (value < 0 || value > INT32_MAX)
      return absl::UnimplementedError("more elements than 32 bits count");
    narrow.push_back(static_cast<int>(value));
  }
  return narrow;
}

// The shape of [n, c, d...], with leading spatial axes of 1 where there are too few.
absl::StatusOr<std::vector<int>> ShapeOf(const Operand& operand) {
  std::vector<int64_t> shape = operand.shape;
  while (shape.size() < 2 + kSpatialAxes) shape.insert(shape.begin() + 2, 1);
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent == 0) return absl::UnimplementedError("an extent of 0");
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > INT32_MAX)
      return absl::UnimplementedError("more elements than 32 bits count");
  }
  return Narrow(shape);
}

// How many windows cuDNN sees in `extent` elements with the padding of the beginning at both ends.
int64_t Windows(const WindowAxis& axis, int64_t extent) {
  const int64_t room = extent + 2 * axis.pad_begin - (axis.kernel - 1) * axis.dilation - 1;
  return room < 0 ? 0 : room / axis.stride + 1;
}

absl::Status SetAxes(const std::vector<WindowAxis>& axes, WindowForm& made) {
  std::vector<int64_t> kernel, pads, strides, dilations;
  for (size_t missing = axes.size(); missing < kSpatialAxes; ++missing) {
    kernel.push_back(1);
    pads.push_back(0);
    strides.push_back(1);
    dilations.push_back(1);
  }
  for (const WindowAxis& axis : axes) {
    kernel.push_back(axis.kernel);
    pads.push_back(axis.pad_begin);
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
  }
  KILN_ASSIGN_OR_RETURN(made.kernel, Narrow(kernel));
  KILN_ASSIGN_OR_RETURN(made.pads, Narrow(pads));
  KILN_ASSIGN_OR_RETURN(made.strides, Narrow(strides));
  KILN_ASSIGN_OR_RETURN(made.dilations, Narrow(dilations));
  return absl::OkStatus();
}

absl::Status TakesType(DType type) {
  if (type == DType::kF32 || type == DType::kF64 || type == DType::kF16) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("type ", Name(type)));
}

// Of bf16 the library's sums and activations are not documented, its convolutions are.
absl::Status TakesConvolution(DType type, bool plain) {
  if (type != DType::kBF16) return TakesType(type);
  if (plain) return absl::OkStatus();
  return absl::UnimplementedError("additions and activations of type bf16");
}

// The operator's own operands of a request; those of post-ops, which all are added, come last.
size_t OwnInputs(const Request& request) {
  const auto adds = std::count_if(request.post_ops.begin(), request.post_ops.end(),
                                  [](const library::PostOp& op) { return op.name == "add"; });
  return request.inputs.size() - static_cast<size_t>(adds);
}

// Over the channels, with an extent of 1 along all other axes.
bool IsVector(const Operand& operand, int64_t channels) {
  for (size_t i = 0; i < operand.shape.size(); ++i)
    if (operand.shape[i] != (i == 1 ? channels : 1)) return false;
  return channels == 1 || operand.strides[1] == 1;
}

absl::Status SetPostOps(const Request& request, ConvolutionForm& made) {
  const Operand& y = request.outputs[0];
  size_t input = OwnInputs(request);
  for (const library::PostOp& op : request.post_ops) {
    if (made.relu) return absl::UnimplementedError(absl::StrCat("\"", op.name, "\" after relu"));
    if (op.name == "relu") {
      made.relu = true;
      continue;
    }
    if (op.name != "add") return absl::UnimplementedError(absl::StrCat("no \"", op.name, "\""));
    const Operand& operand = request.inputs[input];
    const bool vector = IsVector(operand, y.shape[1]);
    if (!vector && (operand.shape != y.shape || !library::IsDense(operand)))
      return absl::UnimplementedError("adds what is neither a vector nor dense");
    made.addends.push_back({input++, vector});
  }
  return absl::OkStatus();
}

}  // namespace

std::string WindowForm::Text() const {
  const auto list = [](const std::vector<int>& values) { return absl::StrJoin(values, ","); };
  return absl::StrCat(Name(type), " x ", list(x), " w ", list(w), " y ", list(y), " kernel ",
                      list(kernel), " pads ", list(pads), " strides ", list(strides), " dilations ",
                      list(dilations), " groups ", groups);
}

absl::StatusOr<ConvolutionForm> ConvolutionFormOf(const Request& request, bool transposed) {
  Request own = request;
  own.inputs.resize(OwnInputs(request));
  own.post_ops.clear();
  KILN_ASSIGN_OR_RETURN(const library::ConvForm form, library::NormalizeConv(own, transposed));
  const bool plain = !library::HasBias(own) && request.post_ops.empty();
  KILN_RETURN_IF_ERROR(TakesConvolution(request.inputs[0].type, plain));
  KILN_RETURN_IF_ERROR(library::RequireDense(own));
  for (const WindowAxis& axis : form.axes) {
    const bool same =
        transposed ? Windows(axis, axis.out) == axis.in : Windows(axis, axis.in) == axis.out;
    if (!same) return absl::UnimplementedError("other pads at the end than at the beginning");
  }
  ConvolutionForm made;
  made.window.type = request.inputs[0].type;
  made.window.groups = static_cast<int>(form.groups);
  KILN_ASSIGN_OR_RETURN(made.window.x, ShapeOf(request.inputs[0]));
  KILN_ASSIGN_OR_RETURN(made.window.w, ShapeOf(request.inputs[1]));
  KILN_ASSIGN_OR_RETURN(made.window.y, ShapeOf(request.outputs[0]));
  KILN_RETURN_IF_ERROR(SetAxes(form.axes, made.window));
  if (library::HasBias(own)) made.addends.push_back({2, true});
  KILN_RETURN_IF_ERROR(SetPostOps(request, made));
  return made;
}

absl::StatusOr<WindowForm> BackwardFormOf(const Request& request) {
  KILN_ASSIGN_OR_RETURN(ConvolutionForm form,
                        ConvolutionFormOf(library::ConvOfBackward(request), false));
  return std::move(form.window);
}

absl::StatusOr<WindowForm> PoolFormOf(const Request& request, bool average) {
  KILN_ASSIGN_OR_RETURN(const library::PoolForm form, library::NormalizePool(request, average));
  KILN_RETURN_IF_ERROR(TakesType(request.inputs[0].type));
  KILN_RETURN_IF_ERROR(library::RequireDense(request));
  for (const WindowAxis& axis : form.axes) {
    if (axis.dilation != 1) return absl::UnimplementedError("dilations");
    if (axis.pad_begin != axis.pad_end || Windows(axis, axis.in) != axis.out)
      return absl::UnimplementedError("other pads at the end than at the beginning");
    if (axis.pad_begin >= axis.kernel) return absl::UnimplementedError("windows of pads alone");
  }
  WindowForm made;
  made.type = request.inputs[0].type;
  made.count_pads = form.count_include_pad;
  KILN_ASSIGN_OR_RETURN(made.x, ShapeOf(request.inputs[0]));
  KILN_ASSIGN_OR_RETURN(made.y, ShapeOf(request.outputs[0]));
  KILN_RETURN_IF_ERROR(SetAxes(form.axes, made));
  return made;
}

absl::StatusOr<WindowForm> AverageBackwardFormOf(const Request& request) {
  Request pool;
  pool.attributes = request.attributes;
  pool.inputs = {request.outputs[0]};
  pool.outputs = {request.inputs[0]};
  return PoolFormOf(pool, /*average=*/true);
}

}  // namespace kiln::cuda
