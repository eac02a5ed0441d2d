// SPDX-License-Identifier: Apache-2.0
// Convolutions of cuDNN, with what is added to them and relu: in one call where the library has it,
// else step by step.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/window_descriptors.h"
#include "exec/cuda/window_form.h"
#include "exec/cuda/windows.h"

namespace kiln::cuda {
namespace {

struct Descriptors {
  DnnObject<DnnTensor> x, y, vector;
  DnnObject<DnnFilter> w;
  DnnObject<DnnConvolution> convolution;
  DnnObject<DnnActivation> activation;
};

absl::StatusOr<Descriptors> Describe(const Cudnn& dnn, const ConvolutionForm& form) {
  const WindowForm& window = form.window;
  std::vector<int> vector(window.y.size(), 1);
  vector[1] = window.y[1];
  Descriptors all;
  KILN_ASSIGN_OR_RETURN(all.x, TensorOf(dnn, window.type, window.x));
  KILN_ASSIGN_OR_RETURN(all.y, TensorOf(dnn, window.type, window.y));
  KILN_ASSIGN_OR_RETURN(all.vector, TensorOf(dnn, window.type, vector));
  KILN_ASSIGN_OR_RETURN(all.w, FilterOf(dnn, window));
  KILN_ASSIGN_OR_RETURN(all.convolution, ConvolutionOf(dnn, window));
  KILN_ASSIGN_OR_RETURN(all.activation, ActivationOf(dnn, form.relu));
  return all;
}

class ConvolutionPrimitive final : public library::Primitive {
 public:
  ConvolutionPrimitive(std::shared_ptr<Windows> windows, ConvolutionForm form, bool transposed,
                       Descriptors descriptors, Windows::Algorithm algorithm)
      : windows_(std::move(windows)),
        form_(std::move(form)),
        transposed_(transposed),
        all_(std::move(descriptors)),
        algorithm_(algorithm),
        factors_(form_.window.type) {}

  std::string description() const override {
    return absl::StrCat("cuDNN ", windows_->dnn().version(), ", algorithm ",
                        static_cast<int>(algorithm_.algo));
  }

  absl::Status Run(const library::Arguments& arguments) const override {
    auto& queue = static_cast<LaunchQueue&>(*static_cast<DeviceQueue*>(arguments.context->stream));
    DevicePointer workspace = 0;
    if (algorithm_.workspace > 0) {
      KILN_ASSIGN_OR_RETURN(workspace, queue.Scratch(algorithm_.workspace));
    }
    KILN_ASSIGN_OR_RETURN(const DnnStatus status, windows_->Call(queue.stream(), [&](DnnHandle on) {
      DnnStatus done = kDnnNotSupported;
      if (IsOneCall()) done = RunFused(on, arguments, AsPointer(workspace));
      return IsNotSupported(done) ? RunSteps(on, arguments, AsPointer(workspace)) : done;
    }));
    return windows_->dnn().Check(status, "a convolution");
  }

 private:
  // Whether it is y = activation(convolution + a tensor + a vector), as the library's one call is.
  // Without an activation that is of one algorithm alone.
  bool IsOneCall() const {
    const auto vectors = std::count_if(form_.addends.begin(), form_.addends.end(),
                                       [](const Addend& one) { return one.vector; });
    return !transposed_ && vectors == 1 && form_.addends.size() <= 2 &&
           (form_.relu || algorithm_.algo == kDnnImplicitPrecompGemm);
  }

  DnnStatus RunFused(DnnHandle on, const library::Arguments& arguments, void* workspace) const {
    const void *vector = nullptr, *added = nullptr;
    for (const Addend& one : form_.addends)
      (one.vector ? vector : added) = arguments.inputs[one.input];
    void* const y = arguments.outputs[0];
    return windows_->dnn().cudnnConvolutionBiasActivationForward(
        on, factors_.one(), all_.x.get(), arguments.inputs[0], all_.w.get(), arguments.inputs[1],
        all_.convolution.get(), algorithm_.algo, workspace, algorithm_.workspace,
        added != nullptr ? factors_.one() : factors_.zero(), all_.y.get(),
        added != nullptr ? added : y, all_.vector.get(), vector, all_.activation.get(),
        all_.y.get(), y);
  }

  DnnStatus RunSteps(DnnHandle on, const library::Arguments& arguments, void* workspace) const {
    const Cudnn& dnn = windows_->dnn();
    void *const x = arguments.inputs[0], *const w = arguments.inputs[1],
                *const y = arguments.outputs[0];
    DnnStatus status =
        transposed_
            ? dnn.cudnnConvolutionBackwardData(on, factors_.one(), all_.w.get(), w, all_.x.get(), x,
                                               all_.convolution.get(), algorithm_.algo, workspace,
                                               algorithm_.workspace, factors_.zero(), all_.y.get(),
                                               y)
            : dnn.cudnnConvolutionForward(on, factors_.one(), all_.x.get(), x, all_.w.get(), w,
                                          all_.convolution.get(), algorithm_.algo, workspace,
                                          algorithm_.workspace, factors_.zero(), all_.y.get(), y);
    for (const Addend& one : form_.addends) {
      if (status != kDnnSuccess) return status;
      status = dnn.cudnnAddTensor(on, factors_.one(), one.vector ? all_.vector.get() : all_.y.get(),
                                  arguments.inputs[one.input], factors_.one(), all_.y.get(), y);
    }
    if (status != kDnnSuccess || !form_.relu) return status;
    return dnn.cudnnActivationForward(on, all_.activation.get(), factors_.one(), all_.y.get(), y,
                                      factors_.zero(), all_.y.get(), y);
  }

  const std::shared_ptr<Windows> windows_;
  const ConvolutionForm form_;
  const bool transposed_;
  const Descriptors all_;
  const Windows::Algorithm algorithm_;
  const Factors factors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<library::Primitive>> Windows::Convolution(
    const library::Request& request, bool transposed) {
  KILN_ASSIGN_OR_RETURN(ConvolutionForm form, ConvolutionFormOf(request, transposed));
  KILN_ASSIGN_OR_RETURN(Descriptors all, Describe(*dnn_, form));
  const std::string text = absl::StrCat(transposed ? "transposed " : "", form.window.Text());
  KILN_ASSIGN_OR_RETURN(const std::optional<Algorithm> algorithm,
                        Choose(text, [&](DnnHandle on, int asked, int* count, DnnPerf* found) {
                          return transposed
                                     ? dnn_->cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                           on, all.w.get(), all.x.get(), all.convolution.get(),
                                           all.y.get(), asked, count, found)
                                     : dnn_->cudnnGetConvolutionForwardAlgorithm_v7(
                                           on, all.x.get(), all.w.get(), all.convolution.get(),
                                           all.y.get(), asked, count, found);
                        }));
  if (!algorithm)
    return absl::UnimplementedError(absl::StrCat("cuDNN has no algorithm for ", text));
  return std::make_unique<ConvolutionPrimitive>(shared_from_this(), std::move(form), transposed,
                                                std::move(all), *algorithm);
}

}  // namespace kiln::cuda
