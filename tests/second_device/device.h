// SPDX-License-Identifier: Apache-2.0
// A second device, which shows what one takes: files of its own, and a line in each table.
//
// "cpu-scalar" is the processor without vectors and without tasks. It has one template, for
// element-wise kernels; all others run on the VM. Each file has the table with its line, which
// stands for that of base/, schedule/, halide_gen/common/ or exec/support/ in these programs.
#ifndef KILN_TESTS_SECOND_DEVICE_DEVICE_H_
#define KILN_TESTS_SECOND_DEVICE_DEVICE_H_

#include "base/target.h"
#include "exec/support/device.h"
#include "schedule/device.h"

namespace kiln {

struct Backend;

inline constexpr auto kScalarDevice = static_cast<DeviceKind>(100);
inline constexpr Target kScalarTarget = {kScalarDevice, 1};

extern const DeviceModel kScalarModel;
extern const DeviceRuntime kScalarRuntime;
extern const Backend kScalarBackend;
extern const Template kScalarLoops;

}  // namespace kiln

#endif  // KILN_TESTS_SECOND_DEVICE_DEVICE_H_
