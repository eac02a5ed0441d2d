// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/windows.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln::cuda {
namespace {

constexpr int kAsked = 8;                             // correctness: room for all algorithms
constexpr size_t kMostWorkspace = size_t{256} << 20;  // speed

}  // namespace

absl::StatusOr<std::shared_ptr<Windows>> Windows::Make(std::shared_ptr<Gpu> gpu,
                                                       std::shared_ptr<const Cudnn> dnn) {
  std::shared_ptr<Windows> made(new Windows(std::move(gpu), std::move(dnn)));
  DnnStatus status = kDnnSuccess;
  KILN_RETURN_IF_ERROR(made->gpu_->Call("cuDNN", [&] {
    status = made->dnn_->cudnnCreate(&made->handle_);
    return kSuccess;
  }));
  KILN_RETURN_IF_ERROR(made->dnn_->Check(status, "its handle"));
  return made;
}

Windows::~Windows() {
  if (handle_ == nullptr) return;
  gpu_->Call("cuDNN",
             [&] {
               dnn_->cudnnDestroy(handle_);
               return kSuccess;
             })
      .IgnoreError();
}

absl::StatusOr<DnnStatus> Windows::Call(Stream stream,
                                        absl::FunctionRef<DnnStatus(DnnHandle)> call) {
  DnnStatus status = kDnnSuccess;
  const MutexLock lock(mutex_);
  KILN_RETURN_IF_ERROR(gpu_->Call("cuDNN", [&] {
    status = dnn_->cudnnSetStream(handle_, stream);
    if (status == kDnnSuccess) status = call(handle_);
    return kSuccess;
  }));
  return status;
}

absl::StatusOr<std::optional<Windows::Algorithm>> Windows::Choose(
    const std::string& text, absl::FunctionRef<DnnStatus(DnnHandle, int, int*, DnnPerf*)> ask) {
  const MutexLock lock(mutex_);
  if (const auto found = chosen_.find(text); found != chosen_.end()) return found->second;
  std::array<DnnPerf, kAsked> found{};
  int count = 0;
  DnnStatus status = kDnnSuccess;
  KILN_RETURN_IF_ERROR(gpu_->Call("cuDNN", [&] {
    status = ask(handle_, kAsked, &count, found.data());
    return kSuccess;
  }));
  if (!IsNotSupported(status)) KILN_RETURN_IF_ERROR(dnn_->Check(status, "its heuristics"));
  std::optional<Algorithm>& chosen = chosen_[text];
  for (int i = 0; i < count && i < kAsked && !chosen; ++i) {
    const DnnPerf& one = found[static_cast<size_t>(i)];
    if (one.status == kDnnSuccess && one.determinism == kDnnDeterministic &&
        one.memory <= kMostWorkspace)
      chosen = Algorithm{one.algo, one.memory};
  }
  return chosen;
}

}  // namespace kiln::cuda
