// SPDX-License-Identifier: Apache-2.0
// A driver that does nothing and counts its calls: for what the host's part of a run costs, and how
// often it asks the driver for something.
//
//   const std::shared_ptr<Gpu> gpu = *Gpu::Open(MockDriver(), 0);
//   ... runs ...
//   EXPECT_EQ(MockCalls()["cuGraphLaunch"], 1);
//
// Memory of the device is of the host and is neither read nor written; any code has all functions.
// The process has one, for one thread.
#ifndef KILN_TESTS_CUDA_MOCK_DRIVER_H_
#define KILN_TESTS_CUDA_MOCK_DRIVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "exec/cuda/driver.h"

namespace kiln {

std::shared_ptr<const cuda::Driver> MockDriver();

// Calls since the last time, by function; those that were not made are left out.
std::map<std::string, int64_t> TakeMockCalls();

// From now on cuGraphInstantiate answers NOT_SUPPORTED, or no longer.
void RefuseMockGraphs(bool refuse);

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_MOCK_DRIVER_H_
