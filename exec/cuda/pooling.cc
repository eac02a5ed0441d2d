// SPDX-License-Identifier: Apache-2.0
// Pools of cuDNN.
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

class PoolPrimitive final : public library::Primitive {
 public:
  PoolPrimitive(std::shared_ptr<Windows> windows, DType type, PoolDescriptors descriptors)
      : windows_(std::move(windows)), all_(std::move(descriptors)), factors_(type) {}

  std::string description() const override {
    return absl::StrCat("cuDNN ", windows_->dnn().version());
  }

  absl::Status Run(const library::Arguments& arguments) const override {
    auto& queue = static_cast<LaunchQueue&>(*static_cast<DeviceQueue*>(arguments.context->stream));
    KILN_ASSIGN_OR_RETURN(const DnnStatus status, windows_->Call(queue.stream(), [&](DnnHandle on) {
      return windows_->dnn().cudnnPoolingForward(on, all_.pooling.get(), factors_.one(),
                                                 all_.x.get(), arguments.inputs[0], factors_.zero(),
                                                 all_.y.get(), arguments.outputs[0]);
    }));
    return windows_->dnn().Check(status, "a pool");
  }

 private:
  const std::shared_ptr<Windows> windows_;
  const PoolDescriptors all_;
  const Factors factors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<library::Primitive>> Windows::Pool(const library::Request& request,
                                                                  bool average) {
  KILN_ASSIGN_OR_RETURN(const WindowForm form, PoolFormOf(request, average));
  PoolDescriptors all;
  KILN_ASSIGN_OR_RETURN(all.x, TensorOf(*dnn_, form.type, form.x));
  KILN_ASSIGN_OR_RETURN(all.y, TensorOf(*dnn_, form.type, form.y));
  KILN_ASSIGN_OR_RETURN(all.pooling, PoolingOf(*dnn_, form, average));
  return std::make_unique<PoolPrimitive>(shared_from_this(), form.type, std::move(all));
}

}  // namespace kiln::cuda
