// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/emulated_gpu.h"

#include <gtest/gtest.h>

#include <utility>

namespace kiln {

std::string EmulatedDriver() { return KILN_TEST_PTX_DRIVER; }

std::shared_ptr<cuda::Gpu> EmulatedGpu(const kiln_ptx_config* config) {
  kiln_ptx_config usual;
  kiln_ptx_default_config(&usual);
  kiln_ptx_configure(config != nullptr ? config : &usual);
  auto driver = cuda::Driver::Open(EmulatedDriver());
  EXPECT_TRUE(driver.ok()) << driver.status();
  if (!driver.ok()) return nullptr;
  auto gpu = cuda::Gpu::Open(*std::move(driver), 0);
  EXPECT_TRUE(gpu.ok()) << gpu.status();
  return gpu.ok() ? *std::move(gpu) : nullptr;
}

std::string TakeFindings() {
  std::string text(kiln_ptx_findings(nullptr, 0), '\0');
  kiln_ptx_findings(text.data(), text.size() + 1);
  kiln_ptx_clear();
  return text;
}

}  // namespace kiln
