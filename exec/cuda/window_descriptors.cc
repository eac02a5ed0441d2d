// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/window_descriptors.h"

#include "base/status_macros.h"

namespace kiln::cuda {
namespace {

DnnType TypeOf(DType type) {
  switch (type) {
    case DType::kF64:
      return kDnnDouble;
    case DType::kF16:
      return kDnnHalf;
    case DType::kBF16:
      return kDnnBFloat16;
    default:
      return kDnnFloat;
  }
}

DnnMath MathOf(DType type) {
  if (type == DType::kF32) return kDnnFmaMath;
  return type == DType::kF64 ? kDnnDefaultMath : kDnnTensorOpMath;
}

// Of `create`, set by `set`.
template <typename Handle, typename Set>
absl::StatusOr<DnnObject<Handle>> Made(const Cudnn& dnn, DnnStatus (*create)(Handle*),
                                       DnnStatus (*destroy)(Handle), const Set& set) {
  Handle made = nullptr;
  KILN_RETURN_IF_ERROR(dnn.Check(create(&made), "a descriptor"));
  DnnObject<Handle> object(made, destroy);
  KILN_RETURN_IF_ERROR(dnn.Check(set(made), "a descriptor"));
  return object;
}

}  // namespace

absl::StatusOr<DnnObject<DnnTensor>> TensorOf(const Cudnn& dnn, DType type,
                                              const std::vector<int>& shape) {
  std::vector<int> strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  return Made(
      dnn, dnn.cudnnCreateTensorDescriptor, dnn.cudnnDestroyTensorDescriptor, [&](DnnTensor made) {
        return dnn.cudnnSetTensorNdDescriptor(made, TypeOf(type), static_cast<int>(shape.size()),
                                              shape.data(), strides.data());
      });
}

absl::StatusOr<DnnObject<DnnFilter>> FilterOf(const Cudnn& dnn, const WindowForm& form) {
  return Made(
      dnn, dnn.cudnnCreateFilterDescriptor, dnn.cudnnDestroyFilterDescriptor, [&](DnnFilter made) {
        return dnn.cudnnSetFilterNdDescriptor(made, TypeOf(form.type), kDnnChannelsFirst,
                                              static_cast<int>(form.w.size()), form.w.data());
      });
}

absl::StatusOr<DnnObject<DnnConvolution>> ConvolutionOf(const Cudnn& dnn, const WindowForm& form) {
  const DnnType compute = form.type == DType::kF64 ? kDnnDouble : kDnnFloat;
  const DnnMath math = MathOf(form.type);
  return Made(dnn, dnn.cudnnCreateConvolutionDescriptor, dnn.cudnnDestroyConvolutionDescriptor,
              [&](DnnConvolution made) {
                const auto axes = static_cast<int>(form.kernel.size());
                DnnStatus status = dnn.cudnnSetConvolutionNdDescriptor(
                    made, axes, form.pads.data(), form.strides.data(), form.dilations.data(),
                    kDnnCrossCorrelation, compute);
                if (status == kDnnSuccess)
                  status = dnn.cudnnSetConvolutionGroupCount(made, form.groups);
                if (status == kDnnSuccess) status = dnn.cudnnSetConvolutionMathType(made, math);
                return status;
              });
}

absl::StatusOr<DnnObject<DnnPooling>> PoolingOf(const Cudnn& dnn, const WindowForm& form,
                                                bool average) {
  const DnnPoolingMode mode = !average          ? kDnnMaxDeterministic
                              : form.count_pads ? kDnnAverageWithPads
                                                : kDnnAverageWithoutPads;
  return Made(dnn, dnn.cudnnCreatePoolingDescriptor, dnn.cudnnDestroyPoolingDescriptor,
              [&](DnnPooling made) {
                return dnn.cudnnSetPoolingNdDescriptor(
                    made, mode, kDnnPropagateNan, static_cast<int>(form.kernel.size()),
                    form.kernel.data(), form.pads.data(), form.strides.data());
              });
}

absl::StatusOr<DnnObject<DnnActivation>> ActivationOf(const Cudnn& dnn, bool relu) {
  return Made(dnn, dnn.cudnnCreateActivationDescriptor, dnn.cudnnDestroyActivationDescriptor,
              [&](DnnActivation made) {
                return dnn.cudnnSetActivationDescriptor(made, relu ? kDnnRelu : kDnnIdentity,
                                                        kDnnPropagateNan, 0);
              });
}

}  // namespace kiln::cuda
