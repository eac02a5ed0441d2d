// SPDX-License-Identifier: Apache-2.0
#include "exec/library/shapes.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln::library {
namespace {

// Attributes beyond this are refused, so that sums and products of a few of them stay within 64
// bits.
constexpr int64_t kMostWindow = std::numeric_limits<int32_t>::max();

std::string Text(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<int64_t> GetInt(const Attributes& attributes, absl::string_view name,
                               int64_t otherwise) {
  const auto it = attributes.find(std::string(name));
  if (it == attributes.end() || it->second.empty()) return otherwise;
  if (it->second.size() != 1)
    return Invalid("attribute \"", name, "\" has ", it->second.size(), " values; need one");
  return it->second[0];
}

// `count` values of at least `least`; all `otherwise` when absent.
absl::StatusOr<std::vector<int64_t>> GetInts(const Attributes& attributes, absl::string_view name,
                                             size_t count, int64_t least, int64_t otherwise) {
  const auto it = attributes.find(std::string(name));
  if (it == attributes.end() || it->second.empty()) return std::vector<int64_t>(count, otherwise);
  if (it->second.size() != count) {
    return Invalid("attribute \"", name, "\" has ", it->second.size(), " values; need ", count);
  }
  for (const int64_t value : it->second) {
    if (value < least || value > kMostWindow) {
      return Invalid("attribute \"", name, "\" is ", Text(it->second), "; values must lie in [",
                     least, ", ", kMostWindow, "]");
    }
  }
  return it->second;
}

// Fills strides, pads and dilations; extents are the caller's.
absl::Status ReadWindow(const Attributes& attributes, std::vector<WindowAxis>& axes) {
  const size_t n = axes.size();
  KILN_ASSIGN_OR_RETURN(const auto strides, GetInts(attributes, "strides", n, 1, 1));
  KILN_ASSIGN_OR_RETURN(const auto dilations, GetInts(attributes, "dilations", n, 1, 1));
  KILN_ASSIGN_OR_RETURN(const auto pads, GetInts(attributes, "pads", 2 * n, 0, 0));
  for (size_t i = 0; i < n; ++i) {
    axes[i].stride = strides[i];
    axes[i].dilation = dilations[i];
    axes[i].pad_begin = pads[i];
    axes[i].pad_end = pads[n + i];
    for (const int64_t extent : {axes[i].in, axes[i].out, axes[i].kernel}) {
      if (extent > kMostWindow) return Invalid("spatial extent ", extent, " exceeds ", kMostWindow);
    }
    if (axes[i].kernel < 1)
      return Invalid("window of extent ", axes[i].kernel, " on spatial axis ", i);
  }
  return absl::OkStatus();
}

int64_t Reach(const WindowAxis& axis) { return (axis.kernel - 1) * axis.dilation + 1; }

absl::Status CheckSpatialRank(size_t rank) {
  if (rank >= 3 && rank <= 5) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("input has rank ", rank, "; ranks 3 to 5 are supported"));
}

// An operand's axes with the batch axes aligned to the right in `rank` places; a batch axis of
// extent 1 has stride 0.
struct Aligned {
  std::vector<int64_t> extents, strides;
};
Aligned AlignBatch(const Operand& operand, size_t own_axes, size_t rank) {
  Aligned batch{std::vector<int64_t>(rank, 1), std::vector<int64_t>(rank, 0)};
  const size_t own = operand.shape.size() - own_axes;
  for (size_t i = 0; i < own; ++i) {
    batch.extents[rank - own + i] = operand.shape[i];
    batch.strides[rank - own + i] = operand.shape[i] == 1 ? 0 : operand.strides[i];
  }
  return batch;
}

// Whether every operand that steps along `outer` does so as along `extent` steps of `inner`.
bool StepsAlike(const std::vector<int64_t>& outer, const std::vector<int64_t>& inner,
                int64_t extent) {
  for (size_t i = 0; i < outer.size(); ++i) {
    if (outer[i] != inner[i] * extent) return false;
  }
  return true;
}

void MergeBatch(MatmulForm& form) {
  std::vector<MatmulForm::Batch> merged;
  for (const MatmulForm::Batch& inner : form.batch) {
    if (!merged.empty()) {
      MatmulForm::Batch& outer = merged.back();
      if (outer.a == inner.a * inner.extent && outer.b == inner.b * inner.extent &&
          outer.c == inner.c * inner.extent &&
          StepsAlike(outer.operands, inner.operands, inner.extent)) {
        outer = {outer.extent * inner.extent, inner.a, inner.b, inner.c, inner.operands};
        continue;
      }
    }
    merged.push_back(inner);
  }
  form.batch = std::move(merged);
  if (!form.batch.empty()) {
    const MatmulForm::Batch& last = form.batch.back();
    // With one row the step from row to row is free: the batch's own.
    const bool rows = form.m == 1 || (last.a == form.m * form.a_m && last.c == form.m * form.c_m &&
                                      StepsAlike(last.operands, form.operands_m, form.m));
    if (last.b == 0 && last.a != 0 && rows) {
      if (form.m == 1) {
        form.a_m = last.a;
        form.c_m = last.c;
        form.operands_m = last.operands;
      }
      form.m *= last.extent;
      form.batch.pop_back();
    }
  }
}

}  // namespace

absl::Status CheckAttributes(const Attributes& attributes,
                             std::initializer_list<absl::string_view> known) {
  for (const auto& [name, values] : attributes) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::UnimplementedError(absl::StrCat(
          "attribute \"", name, "\" is unknown; known are ", absl::StrJoin(known, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status TakesF32(const Request& request) {
  for (const Operand& operand : request.inputs) {
    if (operand.present && operand.type != DType::kF32)
      return absl::UnimplementedError(absl::StrCat("type ", Name(operand.type), "; takes f32"));
  }
  return absl::OkStatus();
}

ThreeAxes Widen(const std::vector<WindowAxis>& axes) {
  ThreeAxes three;
  const size_t missing = three.size() - axes.size();
  for (size_t i = 0; i < three.size(); ++i) {
    three[i].in = three[i].out = 1;
    if (i >= missing) three[i] = axes[i - missing];
  }
  return three;
}

int64_t Meets(const WindowAxis& axis, bool transposed, int64_t o, int64_t k) {
  if (!transposed) {
    const int64_t i = o * axis.stride + k * axis.dilation - axis.pad_begin;
    return i < axis.in ? i : -1;
  }
  const int64_t reached = o + axis.pad_begin - k * axis.dilation;
  if (reached < 0 || reached % axis.stride != 0) return -1;
  const int64_t i = reached / axis.stride;
  return i < axis.in ? i : -1;
}

absl::StatusOr<MatmulForm> NormalizeMatmul(const Request& request) {
  KILN_RETURN_IF_ERROR(CheckAttributes(request.attributes, {"trans_a", "trans_b"}));
  KILN_ASSIGN_OR_RETURN(const int64_t trans_a, GetInt(request.attributes, "trans_a", 0));
  KILN_ASSIGN_OR_RETURN(const int64_t trans_b, GetInt(request.attributes, "trans_b", 0));
  const Operand &a = request.inputs[0], &b = request.inputs[1], &c = request.outputs[0];
  const size_t rank_a = a.shape.size(), rank_b = b.shape.size(), rank_c = c.shape.size();
  const auto mismatch = [&] {
    return Invalid("shapes ", Text(a.shape), " and ", Text(b.shape), " do not give ",
                   Text(c.shape));
  };
  if (a.type != b.type || a.type != c.type) {
    return Invalid("types ", Name(a.type), ", ", Name(b.type), " and ", Name(c.type), " differ");
  }
  if (rank_a == 0 || rank_b == 0) return mismatch();
  const size_t axes_a = std::min<size_t>(rank_a, 2), axes_b = std::min<size_t>(rank_b, 2);
  const size_t axes_c = (axes_a - 1) + (axes_b - 1);
  const size_t batch_rank = std::max(rank_a - axes_a, rank_b - axes_b);
  if (rank_c != batch_rank + axes_c) return mismatch();

  MatmulForm form;
  const size_t a_row = trans_a != 0 ? rank_a - 1 : rank_a - 2,
               a_col = trans_a != 0 ? rank_a - 2 : rank_a - 1;
  const size_t b_row = trans_b != 0 ? rank_b - 1 : rank_b - 2,
               b_col = trans_b != 0 ? rank_b - 2 : rank_b - 1;
  const bool a_matrix = axes_a == 2, b_matrix = axes_b == 2;
  form.m = a_matrix ? a.shape[a_row] : 1;
  form.k = a_matrix ? a.shape[a_col] : a.shape[0];
  form.n = b_matrix ? b.shape[b_col] : 1;
  form.a_k = a_matrix ? a.strides[a_col] : a.strides[0];
  form.b_k = b_matrix ? b.strides[b_row] : b.strides[0];
  form.a_m = a_matrix ? a.strides[a_row] : 0;
  form.b_n = b_matrix ? b.strides[b_col] : 0;
  form.c_m = a_matrix ? c.strides[batch_rank] : 0;
  form.c_n = b_matrix ? c.strides[rank_c - 1] : 0;
  if (form.k != (b_matrix ? b.shape[b_row] : b.shape[0])) return mismatch();
  if (a_matrix && c.shape[batch_rank] != form.m) return mismatch();
  if (b_matrix && c.shape[rank_c - 1] != form.n) return mismatch();

  const Aligned batch_a = AlignBatch(a, axes_a, batch_rank),
                batch_b = AlignBatch(b, axes_b, batch_rank);
  for (size_t i = 0; i < batch_rank; ++i) {
    const int64_t ea = batch_a.extents[i], eb = batch_b.extents[i], ec = c.shape[i];
    if ((ea != eb && ea != 1 && eb != 1) || ec != (ea == 1 ? eb : ea)) return mismatch();
    if (ec == 1) continue;
    form.batch.push_back({ec, batch_a.strides[i], batch_b.strides[i], c.strides[i]});
    for (size_t k = 2; k < request.inputs.size(); ++k) {
      const Operand& operand = request.inputs[k];
      form.batch.back().operands.push_back(operand.shape[i] == 1 ? 0 : operand.strides[i]);
    }
  }
  for (size_t k = 2; k < request.inputs.size(); ++k) {
    const Operand& operand = request.inputs[k];
    const auto step = [&](size_t axis) {
      return operand.shape[axis] == 1 ? 0 : operand.strides[axis];
    };
    form.operands_m.push_back(a_matrix ? step(batch_rank) : 0);
    form.operands_n.push_back(b_matrix ? step(rank_c - 1) : 0);
  }
  MergeBatch(form);
  return form;
}

absl::StatusOr<ConvForm> NormalizeConv(const Request& request, bool transposed) {
  if (transposed) {
    KILN_RETURN_IF_ERROR(CheckAttributes(
        request.attributes,
        {"dilations", "group", "kernel", "output_padding", "output_shape", "pads", "strides"}));
  } else {
    KILN_RETURN_IF_ERROR(
        CheckAttributes(request.attributes, {"dilations", "group", "kernel", "pads", "strides"}));
  }
  const Operand &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
  const bool has_bias = HasBias(request);
  const auto mismatch = [&] {
    return Invalid("shapes ", Text(x.shape), " and ", Text(w.shape),
                   has_bias ? absl::StrCat(" with bias ", Text(request.inputs[2].shape)) : "",
                   " do not give ", Text(y.shape));
  };
  for (const Operand* other : {&w, &y, has_bias ? &request.inputs[2] : &y}) {
    if (other->type != x.type)
      return Invalid("types ", Name(x.type), " and ", Name(other->type), " differ");
  }
  KILN_RETURN_IF_ERROR(CheckSpatialRank(x.shape.size()));
  if (w.shape.size() != x.shape.size() || y.shape.size() != x.shape.size()) return mismatch();
  KILN_ASSIGN_OR_RETURN(const int64_t groups, GetInt(request.attributes, "group", 1));
  ConvForm form;
  form.batch = x.shape[0];
  form.groups = groups;
  if (groups < 1 || x.shape[1] % groups != 0 || y.shape[1] % groups != 0 ||
      y.shape[0] != x.shape[0])
    return mismatch();
  form.in_channels = x.shape[1] / groups;
  form.out_channels = y.shape[1] / groups;
  const bool weights_fit = transposed ? w.shape[0] == x.shape[1] && w.shape[1] == form.out_channels
                                      : w.shape[0] == y.shape[1] && w.shape[1] == form.in_channels;
  const bool bias_fits = !has_bias || request.inputs[2].shape == std::vector<int64_t>{y.shape[1]};
  if (!weights_fit || !bias_fits) return mismatch();
  form.axes.resize(x.shape.size() - 2);
  for (size_t i = 0; i < form.axes.size(); ++i) {
    form.axes[i].in = x.shape[i + 2];
    form.axes[i].out = y.shape[i + 2];
    form.axes[i].kernel = w.shape[i + 2];
  }
  KILN_RETURN_IF_ERROR(ReadWindow(request.attributes, form.axes));
  for (WindowAxis& axis : form.axes) {
    if (transposed) {
      // What the output has beyond the rule without end padding is taken off as end padding;
      // output_padding makes it less.
      axis.pad_end = (axis.in - 1) * axis.stride + Reach(axis) - axis.pad_begin - axis.out;
      if (axis.pad_end < -std::max(axis.stride, axis.dilation)) return mismatch();
    } else {
      const int64_t room = axis.in + axis.pad_begin + axis.pad_end - Reach(axis);
      if (room < 0 || room / axis.stride + 1 != axis.out) return mismatch();
    }
  }
  return form;
}

Request ConvOfBackward(const Request& request) {
  Request conv;
  conv.attributes = request.attributes;
  conv.inputs = {request.inputs[0], request.outputs[0]};
  conv.outputs = {request.inputs[1]};
  return conv;
}

absl::StatusOr<ConvForm> NormalizeConvBackward(const Request& request) {
  return NormalizeConv(ConvOfBackward(request), /*transposed=*/false);
}

bool HasBias(const Request& conv) { return conv.inputs.size() > 2 && conv.inputs[2].present; }

absl::Status TakesRows(const Request& conv) {
  const Operand& w = conv.inputs[1];
  if (w.constant == nullptr || !IsDense(w))
    return absl::UnimplementedError("the weights are no dense constant");
  if (!IsChannelsLast(conv.inputs[0]) || !IsChannelsLast(conv.outputs[0]))
    return absl::UnimplementedError("channels are not innermost");
  if (HasBias(conv) && !IsDense(conv.inputs[2]))
    return absl::UnimplementedError("the bias is not dense");
  return absl::OkStatus();
}

absl::Status TakesOneGroup(const Request& request, const ConvForm& form) {
  if (form.groups != 1) return absl::UnimplementedError("several groups");
  return TakesRows(request);
}

absl::StatusOr<PoolForm> NormalizePool(const Request& request, bool average) {
  if (average) {
    KILN_RETURN_IF_ERROR(CheckAttributes(
        request.attributes,
        {"ceil_mode", "count_include_pad", "dilations", "kernel", "pads", "strides"}));
  } else {
    KILN_RETURN_IF_ERROR(CheckAttributes(request.attributes, {"ceil_mode", "dilations", "kernel",
                                                              "pads", "storage_order", "strides"}));
  }
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  KILN_RETURN_IF_ERROR(CheckSpatialRank(x.shape.size()));
  const auto mismatch = [&] {
    return Invalid("shape ", Text(x.shape), " does not give ", Text(y.shape));
  };
  if (y.shape.size() != x.shape.size() || y.shape[0] != x.shape[0] || y.shape[1] != x.shape[1])
    return mismatch();
  if (x.type != y.type) return Invalid("types ", Name(x.type), " and ", Name(y.type), " differ");
  PoolForm form;
  form.batch = x.shape[0];
  form.channels = x.shape[1];
  form.axes.resize(x.shape.size() - 2);
  KILN_ASSIGN_OR_RETURN(const auto kernel,
                        GetInts(request.attributes, "kernel", form.axes.size(), 1, 0));
  KILN_ASSIGN_OR_RETURN(const int64_t ceil_mode, GetInt(request.attributes, "ceil_mode", 0));
  KILN_ASSIGN_OR_RETURN(const int64_t include, GetInt(request.attributes, "count_include_pad", 0));
  form.count_include_pad = include != 0;
  for (size_t i = 0; i < form.axes.size(); ++i) {
    form.axes[i].in = x.shape[i + 2];
    form.axes[i].out = y.shape[i + 2];
    form.axes[i].kernel = kernel[i];
  }
  KILN_RETURN_IF_ERROR(ReadWindow(request.attributes, form.axes));
  for (const WindowAxis& axis : form.axes) {
    const int64_t room = axis.in + axis.pad_begin + axis.pad_end - Reach(axis);
    const int64_t least = room < 0 ? 0 : room / axis.stride + 1;
    // Rounding up, a last window that would lie in the end padding alone may or may not be there.
    const int64_t most =
        ceil_mode != 0 ? (std::max<int64_t>(room, 0) + axis.stride - 1) / axis.stride + 1 : least;
    if (axis.out < least || axis.out > most) return mismatch();
  }
  return form;
}

int64_t IntOf(const Request& request, const char* name, int64_t otherwise) {
  const auto found = request.attributes.find(name);
  return found == request.attributes.end() || found->second.empty() ? otherwise : found->second[0];
}

absl::StatusOr<Around> AroundAxis(const Request& request) {
  const std::vector<int64_t>& shape = request.inputs[0].shape;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = IntOf(request, "axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank)
    return absl::InvalidArgumentError(absl::StrCat("axis is outside a tensor of rank ", rank));
  Around around;
  around.axis = axis;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t& part = i < axis ? around.outer : i == axis ? around.extent : around.inner;
    part *= shape[static_cast<size_t>(i)];
  }
  return around;
}

bool IsChannelsLast(const Operand& operand) {
  int64_t span = operand.shape[1];
  if (span == 0) return false;  // nobody's strides say more than those that it is written with
  if (operand.shape[1] != 1 && operand.strides[1] != 1) return false;
  for (size_t i = operand.shape.size(); i-- > 0; span *= operand.shape[i]) {
    if (i == 1) span /= operand.shape[i];
    if (i != 1 && operand.shape[i] != 1 && operand.strides[i] != span) return false;
  }
  return true;
}

int64_t Span(const Operand& operand) {
  int64_t last = 0;
  for (size_t i = 0; i < operand.shape.size(); ++i) {
    if (operand.shape[i] == 0 || operand.strides[i] < 0) return 0;
    last += (operand.shape[i] - 1) * operand.strides[i];
  }
  return last + 1;
}

bool IsDense(const Operand& operand) {
  if (std::count(operand.shape.begin(), operand.shape.end(), 0) > 0) return true;
  int64_t span = 1;
  for (size_t i = operand.shape.size(); i-- > 0; span *= operand.shape[i]) {
    if (operand.shape[i] != 1 && operand.strides[i] != span) return false;
  }
  return true;
}

absl::Status RequireDense(const Request& request) {
  for (const auto* operands : {&request.inputs, &request.outputs}) {
    if (!std::all_of(operands->begin(), operands->end(), IsDense))
      return absl::UnimplementedError("operands must be dense");
  }
  return absl::OkStatus();
}

}  // namespace kiln::library
