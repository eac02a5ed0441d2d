// SPDX-License-Identifier: Apache-2.0
#include "exec/device_constants.h"

#include "base/status_macros.h"

namespace kiln {

absl::StatusOr<std::shared_ptr<void>> DeviceConstants::Upload(const Tensor& constant) {
  const MutexLock lock(mutex_);
  std::erase_if(copies_, [](const auto& one) { return one.second.expired(); });
  std::weak_ptr<void>& kept = copies_[{constant.data(), constant.size_bytes()}];
  if (std::shared_ptr<void> copy = kept.lock()) return copy;
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<void> copy,
                        device_->Upload(constant.data(), constant.size_bytes()));
  kept = copy;
  return copy;
}

}  // namespace kiln
