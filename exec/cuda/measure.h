// SPDX-License-Identifier: Apache-2.0
// What copies and launches of a GPU take (exec/support/device_speed.h), by its own clock, and by
// the host's where the host's memory takes part.
#ifndef KILN_EXEC_CUDA_MEASURE_H_
#define KILN_EXEC_CUDA_MEASURE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/cuda/gpu.h"
#include "exec/support/device_speed.h"

namespace kiln::cuda {

// The best of some passes each; bandwidth on the device by a kernel and by the driver's copy,
// whichever is faster. At most a thirtieth of the device's memory is taken meanwhile.
absl::StatusOr<DeviceSpeed> MeasureGpu(const std::shared_ptr<Gpu>& gpu);

}  // namespace kiln::cuda

#endif  // KILN_EXEC_CUDA_MEASURE_H_
