// SPDX-License-Identifier: Apache-2.0
// DeviceConstants: the constants of models on a device, each once.
//
//   KILN_ASSIGN_OR_RETURN(std::shared_ptr<void> weight, constants.Upload(tensor));
//
// A copy stays as long as some plan has it. Who has it keeps the constant in the host's memory too,
// so that its address names it. Thread-safe.
#ifndef KILN_EXEC_DEVICE_CONSTANTS_H_
#define KILN_EXEC_DEVICE_CONSTANTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/tensor.h"
#include "exec/support/compute_device.h"

namespace kiln {

class DeviceConstants {
 public:
  explicit DeviceConstants(std::shared_ptr<ComputeDevice> device) : device_(std::move(device)) {}

  ComputeDevice& device() const { return *device_; }
  const std::shared_ptr<ComputeDevice>& shared() const { return device_; }
  // At the address that the pointer holds. Errors as ComputeDevice::Upload.
  absl::StatusOr<std::shared_ptr<void>> Upload(const Tensor& constant);

 private:
  const std::shared_ptr<ComputeDevice> device_;
  Mutex mutex_;
  std::map<std::pair<const void*, int64_t>, std::weak_ptr<void>> copies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln

#endif  // KILN_EXEC_DEVICE_CONSTANTS_H_
