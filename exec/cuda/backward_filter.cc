// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions by their weights, of cuDNN.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/window_descriptors.h"
#include "exec/cuda/window_form.h"
#include "exec/cuda/windows.h"

namespace kiln::cuda {
namespace {

struct Descriptors {
  DnnObject<DnnTensor> x, y;
  DnnObject<DnnFilter> w;
  DnnObject<DnnConvolution> convolution;
};

class BackwardFilterPrimitive final : public library::Primitive {
 public:
  BackwardFilterPrimitive(std::shared_ptr<Windows> windows, DType type, Descriptors descriptors,
                          Windows::Algorithm algorithm)
      : windows_(std::move(windows)),
        all_(std::move(descriptors)),
        algorithm_(algorithm),
        factors_(type) {}

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
      return windows_->dnn().cudnnConvolutionBackwardFilter(
          on, factors_.one(), all_.x.get(), arguments.inputs[0], all_.y.get(), arguments.inputs[1],
          all_.convolution.get(), algorithm_.algo, AsPointer(workspace), algorithm_.workspace,
          factors_.zero(), all_.w.get(), arguments.outputs[0]);
    }));
    return windows_->dnn().Check(status, "the gradient of a convolution's weight");
  }

 private:
  const std::shared_ptr<Windows> windows_;
  const Descriptors all_;
  const Windows::Algorithm algorithm_;
  const Factors factors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<library::Primitive>> Windows::BackwardFilter(
    const library::Request& request) {
  KILN_ASSIGN_OR_RETURN(const WindowForm form, BackwardFormOf(request));
  Descriptors all;
  KILN_ASSIGN_OR_RETURN(all.x, TensorOf(*dnn_, form.type, form.x));
  KILN_ASSIGN_OR_RETURN(all.y, TensorOf(*dnn_, form.type, form.y));
  KILN_ASSIGN_OR_RETURN(all.w, FilterOf(*dnn_, form));
  KILN_ASSIGN_OR_RETURN(all.convolution, ConvolutionOf(*dnn_, form));
  const std::string text = absl::StrCat("weights of ", form.Text());
  KILN_ASSIGN_OR_RETURN(const std::optional<Algorithm> algorithm,
                        Choose(text, [&](DnnHandle on, int asked, int* count, DnnPerf* found) {
                          return dnn_->cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                              on, all.x.get(), all.y.get(), all.convolution.get(), all.w.get(),
                              asked, count, found);
                        }));
  if (!algorithm)
    return absl::UnimplementedError(absl::StrCat("cuDNN has no algorithm for ", text));
  return std::make_unique<BackwardFilterPrimitive>(shared_from_this(), form.type, std::move(all),
                                                   *algorithm);
}

}  // namespace kiln::cuda
