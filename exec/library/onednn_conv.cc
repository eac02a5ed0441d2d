// SPDX-License-Identifier: Apache-2.0
// Convolutions and their transposes on oneDNN.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/conv_backward_loop.h"
#include "exec/library/onednn.h"
#include "exec/library/onednn_primitive.h"
#include "exec/library/post_ops.h"
#include "exec/library/reference_conv.h"
#include "exec/library/row_epilogue.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

struct ConvDescs {
  Desc x, w, y;
  std::optional<Desc> bias;
  int bias_input = 2;
  Epilogue epilogue;
  Dims strides, dilations, pads_begin, pads_end;
};

absl::StatusOr<ConvDescs> DescribeConv(const Request& request, const ConvForm& form,
                                       bool transposed) {
  ConvDescs d;
  const auto describe = [](const Operand& operand) -> absl::StatusOr<Desc> {
    if (!TakesStrides(operand.shape, operand.strides)) {
      return absl::UnimplementedError("strides that overlap are not supported; copy the operand");
    }
    return Desc(operand.shape, kF32, Tidy(operand.shape, operand.strides));
  };
  KILN_ASSIGN_OR_RETURN(d.x, describe(request.inputs[0]));
  KILN_RETURN_IF_ERROR(describe(request.inputs[1]).status());
  KILN_ASSIGN_OR_RETURN(d.y, describe(request.outputs[0]));
  const size_t own = request.inputs.size() - CountOperands(request.post_ops);
  if (own > 2 && request.inputs[2].present) {
    KILN_ASSIGN_OR_RETURN(d.bias, describe(request.inputs[2]));
  }
  d.epilogue.first_operand = own;
  d.epilogue.post_ops = request.post_ops;
  for (size_t k = own; k < request.inputs.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(Desc operand, describe(request.inputs[k]));
    d.epilogue.operands.push_back(std::move(operand));
  }
  if (!d.bias && !d.epilogue.operands.empty() && d.epilogue.post_ops[0].name == "add") {
    Dims over_channels(request.outputs[0].shape.size(), 1);
    const Operand& vector = request.inputs[own];
    over_channels[1] = request.outputs[0].shape[1];
    if (vector.shape == over_channels && (vector.strides[1] == 1 || vector.shape[1] == 1)) {
      d.bias = Desc({over_channels[1]}, kF32, Dims{1});
      d.bias_input = static_cast<int>(own);
      d.epilogue.bias = true;
      d.epilogue.post_ops.erase(d.epilogue.post_ops.begin());
      d.epilogue.operands.erase(d.epilogue.operands.begin());
    }
  }
  // oneDNN's weights are [g, out, in, K...] (without g for one group); ONNX's transposed ones [g *
  // in, out, K...].
  const Operand& w = request.inputs[1];
  Dims dims, strides;
  if (form.groups > 1) {
    dims.push_back(form.groups);
    strides.push_back(w.strides[0] * (transposed ? form.in_channels : form.out_channels));
  }
  dims.insert(dims.end(), {form.out_channels, form.in_channels});
  strides.insert(strides.end(), {w.strides[transposed ? 1 : 0], w.strides[transposed ? 0 : 1]});
  dims.insert(dims.end(), w.shape.begin() + 2, w.shape.end());
  strides.insert(strides.end(), w.strides.begin() + 2, w.strides.end());
  d.w = Desc(dims, kF32, Tidy(dims, strides));
  for (const WindowAxis& axis : form.axes) {
    d.strides.push_back(axis.stride);
    d.dilations.push_back(axis.dilation - 1);
    d.pads_begin.push_back(axis.pad_begin);
    d.pads_end.push_back(axis.pad_end);
  }
  return d;
}

// oneDNN's own choice of layout, with the logical dims of `d`.
Desc AnyLayout(const Desc& d) { return Desc(d.get_dims(), kF32, kAny); }

// The convolution is a plain matrix product over dense rows of pixels.
bool IsMatrixProduct(const Request& request, const ConvForm& form) {
  const auto point = [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  };
  return form.groups == 1 && std::all_of(form.axes.begin(), form.axes.end(), point) &&
         IsDense(request.inputs[0]) && IsDense(request.outputs[0]);
}

template <typename PrimitiveDesc>
PrimitiveDesc MakeConvDesc(const dnnl::engine& engine, dnnl::algorithm algorithm,
                           const ConvDescs& d, bool keep_layout) {
  const auto kind = dnnl::prop_kind::forward_inference;
  const Desc x = keep_layout ? d.x : AnyLayout(d.x), y = keep_layout ? d.y : AnyLayout(d.y);
  const dnnl::primitive_attr attributes = AttributesOf(d.epilogue);
  if (d.bias) {
    return PrimitiveDesc(engine, kind, algorithm, x, AnyLayout(d.w), *d.bias, y, d.strides,
                         d.dilations, d.pads_begin, d.pads_end, attributes);
  }
  return PrimitiveDesc(engine, kind, algorithm, x, AnyLayout(d.w), y, d.strides, d.dilations,
                       d.pads_begin, d.pads_end, attributes);
}

// Drops axes along which there is one point and nothing slides. oneDNN works along the last axis: a
// network over [n, c, 512, 1] runs twice as fast as one over [n, c, 512].
void DropPointAxes(Request& request, ConvForm& form) {
  for (size_t i = form.axes.size(); i-- > 0 && form.axes.size() > 1;) {
    const WindowAxis& axis = form.axes[i];
    if (!IsUnitAxis(axis)) continue;
    std::vector<Operand*> operands = {&request.inputs[0], &request.inputs[1], &request.outputs[0]};
    for (size_t k = request.inputs.size() - CountOperands(request.post_ops);
         k < request.inputs.size(); ++k)
      operands.push_back(&request.inputs[k]);
    for (Operand* operand : operands) {
      operand->shape.erase(operand->shape.begin() + static_cast<ptrdiff_t>(i) + 2);
      operand->strides.erase(operand->strides.begin() + static_cast<ptrdiff_t>(i) + 2);
    }
    form.axes.erase(form.axes.begin() + static_cast<ptrdiff_t>(i));
  }
}

// What the implementations share: checked, with as few axes as it can have.
struct Prepared {
  Request request;
  ConvForm form;
};

absl::StatusOr<Prepared> Prepare(const Request& request, bool transposed) {
  if (request.inputs[0].type == DType::kBool)
    return absl::UnimplementedError("type bool is not supported; cast to a number");
  KILN_ASSIGN_OR_RETURN(ConvForm form, NormalizeConv(WithoutPostOps(request), transposed));
  Prepared prepared{request, std::move(form)};
  DropPointAxes(prepared.request, prepared.form);
  return prepared;
}

// One of two ways to hand activations over: `keep` has the caller's layouts; otherwise reorders go
// to layouts of oneDNN's choice and back, which pays 2 to 6 times for 3x3 and depthwise ones in
// NCHW.
template <typename Convolution>
absl::StatusOr<std::unique_ptr<Primitive>> MakeOneDnn(const Request& original, bool keep,
                                                      const std::shared_ptr<Session>& any_session) {
  using PrimitiveDesc = typename Convolution::primitive_desc;
  constexpr bool kTransposed = std::is_same_v<Convolution, dnnl::deconvolution_forward>;
  constexpr auto kAlgorithm =
      kTransposed ? dnnl::algorithm::deconvolution_direct : dnnl::algorithm::convolution_direct;
  const auto session = std::static_pointer_cast<OneDnnSession>(any_session);
  KILN_ASSIGN_OR_RETURN(const Prepared prepared, Prepare(original, kTransposed));
  const Request& request = prepared.request;
  KILN_RETURN_IF_ERROR(TakesOperands(request));
  const bool channels_last =
      IsChannelsLast(request.inputs[0]) && IsChannelsLast(request.outputs[0]);
  const bool product = !kTransposed && IsMatrixProduct(request, prepared.form);
  if (keep && !channels_last && !product)
    return absl::UnimplementedError("neither channels last nor a product of dense rows");
  return session->Call([&]() -> absl::StatusOr<std::unique_ptr<Primitive>> {
    KILN_ASSIGN_OR_RETURN(const ConvDescs d, DescribeConv(request, prepared.form, kTransposed));
    const auto pd = Undivided(
        [&] { return MakeConvDesc<PrimitiveDesc>(session->engine(), kAlgorithm, d, keep); });
    const char* name = pd.impl_info_str();
    if (keep && channels_last && !IsGenerated(name))
      return absl::UnimplementedError(absl::StrCat(name, " is a plain loop"));
    if (LosesByPostOps(name, request.post_ops))
      return absl::UnimplementedError(absl::StrCat(name, " is a plain loop with post-ops"));
    const bool may_drop = MayDropNan(d.epilogue.post_ops);
    if (may_drop && !IsGenerated(name))
      return absl::UnimplementedError(absl::StrCat(name, " could lose a NaN in a post-op"));
    auto primitive = std::make_unique<OneDnnPrimitive>(session);
    primitive->AddSlot(DNNL_ARG_SRC, Slot::From::kInput, 0, d.x, pd.src_desc(), nullptr);
    primitive->AddSlot(DNNL_ARG_WEIGHTS, Slot::From::kInput, 1, d.w, pd.weights_desc(),
                       request.inputs[1].constant);
    if (d.bias) {
      primitive->AddSlot(DNNL_ARG_BIAS, Slot::From::kInput, d.bias_input, *d.bias, pd.bias_desc(),
                         nullptr);
    }
    primitive->AddSlot(DNNL_ARG_DST, Slot::From::kOutput, 0, d.y, pd.dst_desc(), nullptr);
    AddOperands(d.epilogue, *primitive);
    primitive->SetPrimitive(Undivided([&] { return Convolution(pd); }), pd.scratchpad_desc());
    primitive->Describe(name);
    if (may_drop) primitive->RepeatWithout(*Find("conv"), original);
    return primitive;
  });
}

// oneDNN 3.2 adds the bias of a strided transposed convolution several times where there are many
// input channels: a loop adds it.
absl::StatusOr<std::unique_ptr<Primitive>> MakeTransposed(const Request& request, bool keep,
                                                          const std::shared_ptr<Session>& session) {
  if (request.inputs.size() < 3 || !request.inputs[2].present)
    return MakeOneDnn<dnnl::deconvolution_forward>(request, keep, session);
  KILN_RETURN_IF_ERROR(Prepare(request, /*transposed=*/true).status());
  Request alone = request;
  alone.inputs.resize(2);
  KILN_ASSIGN_OR_RETURN(auto made, MakeOneDnn<dnnl::deconvolution_forward>(alone, keep, session));
  Request with_bias = request;
  const size_t rank = request.outputs[0].shape.size();
  Operand& bias = with_bias.inputs[2];
  const int64_t channels = bias.shape[0], stride = bias.strides[0];
  bias.shape.assign(rank, 1);
  bias.strides.assign(rank, 0);
  bias.shape[1] = channels;
  bias.strides[1] = stride;
  with_bias.post_ops = {{"add", {}}};
  return WithPostOpLoops(std::move(made), with_bias);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeLoop(const Request& request, bool transposed) {
  KILN_ASSIGN_OR_RETURN(const Prepared prepared, Prepare(request, transposed));
  return MakeReferenceConv(prepared.request, prepared.form, transposed);
}

// `keep`: as of MakeOneDnn. What changes from run to run has no packed form.
absl::StatusOr<std::unique_ptr<Primitive>> MakeBackwardWeights(
    const Request& request, bool keep, const std::shared_ptr<Session>& any_session) {
  const auto session = std::static_pointer_cast<OneDnnSession>(any_session);
  KILN_ASSIGN_OR_RETURN(const Prepared prepared,
                        Prepare(ConvOfBackward(request), /*transposed=*/false));
  const Request& conv = prepared.request;
  KILN_RETURN_IF_ERROR(TakesOperands(request));
  if (keep && !(IsChannelsLast(conv.inputs[0]) && IsChannelsLast(conv.outputs[0])))
    return absl::UnimplementedError("not channels last");
  return session->Call([&]() -> absl::StatusOr<std::unique_ptr<Primitive>> {
    KILN_ASSIGN_OR_RETURN(const ConvDescs d,
                          DescribeConv(conv, prepared.form, /*transposed=*/false));
    const Desc x = keep ? d.x : AnyLayout(d.x), y = keep ? d.y : AnyLayout(d.y);
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const auto pd = Undivided([&] {
      const dnnl::convolution_forward::primitive_desc hint(
          session->engine(), dnnl::prop_kind::forward_training, kDirect, x, AnyLayout(d.w), y,
          d.strides, d.dilations, d.pads_begin, d.pads_end, StrictAttributes());
      return dnnl::convolution_backward_weights::primitive_desc(
          session->engine(), kDirect, x, AnyLayout(d.w), y, d.strides, d.dilations, d.pads_begin,
          d.pads_end, hint, StrictAttributes());
    });
    const char* name = pd.impl_info_str();
    if (keep && !IsGenerated(name))
      return absl::UnimplementedError(absl::StrCat(name, " is a plain loop"));
    auto primitive = std::make_unique<OneDnnPrimitive>(session);
    primitive->AddSlot(DNNL_ARG_SRC, Slot::From::kInput, 0, d.x, pd.src_desc(), nullptr);
    primitive->AddSlot(DNNL_ARG_DIFF_DST, Slot::From::kInput, 1, d.y, pd.diff_dst_desc(), nullptr);
    primitive->AddSlot(DNNL_ARG_DIFF_WEIGHTS, Slot::From::kOutput, 0, d.w, pd.diff_weights_desc(),
                       nullptr);
    primitive->SetPrimitive(Undivided([&] { return dnnl::convolution_backward_weights(pd); }),
                            pd.scratchpad_desc());
    primitive->Describe(name);
    return primitive;
  });
}

}  // namespace

// Logistic functions, and what follows them, run over rows afterwards: oneDNN takes three times as
// long for them.
absl::StatusOr<std::unique_ptr<Primitive>> MakeConvKept(const Request& request,
                                                        const std::shared_ptr<Session>& session) {
  const auto make = [&](const Request& r) {
    return MakeOneDnn<dnnl::convolution_forward>(r, /*keep=*/true, session);
  };
  const auto logistic =
      std::find_if(request.post_ops.begin(), request.post_ops.end(),
                   [](const PostOp& op) { return op.name == "sigmoid" || op.name == "swish"; });
  if (logistic == request.post_ops.end() || !IsChannelsLast(request.outputs[0]))
    return make(request);
  Request after = request;
  after.post_ops.assign(logistic, request.post_ops.end());
  absl::StatusOr<RowEpilogue> finish = RowEpilogue::Make(after);
  if (!finish.ok()) return make(request);
  Request before = request;
  before.post_ops.assign(request.post_ops.begin(), logistic);
  before.inputs.resize(request.inputs.size() - CountOperands(after.post_ops));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Primitive> primitive, make(before));
  int64_t rows = 1;
  const std::vector<int64_t>& shape = request.outputs[0].shape;
  for (size_t i = 0; i < shape.size(); ++i) rows *= i == 1 ? 1 : shape[i];
  return WithRowEpilogue(std::move(primitive), *std::move(finish), rows);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvReordered(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakeOneDnn<dnnl::convolution_forward>(request, /*keep=*/false, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvLoop(const Request& request,
                                                        const std::shared_ptr<Session>&) {
  return MakeLoop(request, /*transposed=*/false);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTransposeKept(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakeTransposed(request, /*keep=*/true, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTransposeReordered(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakeTransposed(request, /*keep=*/false, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTransposeLoop(const Request& request,
                                                                 const std::shared_ptr<Session>&) {
  return MakeLoop(request, /*transposed=*/true);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsKept(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakeBackwardWeights(request, /*keep=*/true, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsReordered(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakeBackwardWeights(request, /*keep=*/false, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvBackwardWeightsLoop(
    const Request& request, const std::shared_ptr<Session>&) {
  KILN_ASSIGN_OR_RETURN(const Prepared prepared,
                        Prepare(ConvOfBackward(request), /*transposed=*/false));
  return MakeConvBackwardLoop(prepared.request, prepared.form);
}

}  // namespace kiln::library
