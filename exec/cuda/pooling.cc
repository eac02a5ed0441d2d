// SPDX-License-Identifier: Apache-2.0
// Pools of cuDNN, and the gradient of an average.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/window_descriptors.h"
#include "exec/cuda/window_form.h"
#include "exec/cuda/windows.h"

namespace kiln::cuda {
namespace {

struct PoolDescriptors {
  DnnObject<DnnTensor> x, y;
  DnnObject<DnnPooling> pooling;
};

absl::StatusOr<PoolDescriptors> Describe(const Cudnn& dnn, const WindowForm& form, bool average) {
  PoolDescriptors all;
  KILN_ASSIGN_OR_RETURN(all.x, TensorOf(dnn, form.type, form.x));
  KILN_ASSIGN_OR_RETURN(all.y, TensorOf(dnn, form.type, form.y));
  KILN_ASSIGN_OR_RETURN(all.pooling, PoolingOf(dnn, form, average));
  return all;
}

class PoolPrimitive final : public library::Primitive {
 public:
  PoolPrimitive(std::shared_ptr<Windows> windows, DType type, PoolDescriptors descriptors,
                bool backward)
      : windows_(std::move(windows)),
        all_(std::move(descriptors)),
        factors_(type),
        backward_(backward) {}

  std::string description() const override {
    return absl::StrCat("cuDNN ", windows_->dnn().version());
  }

  absl::Status Run(const library::Arguments& arguments) const override {
    auto& queue = static_cast<LaunchQueue&>(*static_cast<DeviceQueue*>(arguments.context->stream));
    const Cudnn& dnn = windows_->dnn();
    void *const from = arguments.inputs[0], *const to = arguments.outputs[0];
    KILN_ASSIGN_OR_RETURN(const DnnStatus status, windows_->Call(queue.stream(), [&](DnnHandle on) {
      if (!backward_) {
        return dnn.cudnnPoolingForward(on, all_.pooling.get(), factors_.one(), all_.x.get(), from,
                                       factors_.zero(), all_.y.get(), to);
      }
      // The pool's own input and output decide nothing of an average's gradient: memory of their
      // shapes stands in for them.
      return dnn.cudnnPoolingBackward(on, all_.pooling.get(), factors_.one(), all_.y.get(), from,
                                      all_.y.get(), from, all_.x.get(), to, factors_.zero(),
                                      all_.x.get(), to);
    }));
    return dnn.Check(status, backward_ ? "the gradient of a pool" : "a pool");
  }

 private:
  const std::shared_ptr<Windows> windows_;
  const PoolDescriptors all_;
  const Factors factors_;
  const bool backward_;  // of an average
};

}  // namespace

absl::StatusOr<std::unique_ptr<library::Primitive>> Windows::Pool(const library::Request& request,
                                                                  bool average) {
  KILN_ASSIGN_OR_RETURN(const WindowForm form, PoolFormOf(request, average));
  KILN_ASSIGN_OR_RETURN(PoolDescriptors all, Describe(*dnn_, form, average));
  return std::make_unique<PoolPrimitive>(shared_from_this(), form.type, std::move(all),
                                         /*backward=*/false);
}

absl::StatusOr<std::unique_ptr<library::Primitive>> Windows::AveragePoolBackward(
    const library::Request& request) {
  KILN_ASSIGN_OR_RETURN(const WindowForm form, AverageBackwardFormOf(request));
  KILN_ASSIGN_OR_RETURN(PoolDescriptors all, Describe(*dnn_, form, /*average=*/true));
  return std::make_unique<PoolPrimitive>(shared_from_this(), form.type, std::move(all),
                                         /*backward=*/true);
}

}  // namespace kiln::cuda
