// SPDX-License-Identifier: Apache-2.0
// The table of backends, one line each.
#include "halide_gen/common/backend.h"
#include "halide_gen/cpu/backend.h"
#include "halide_gen/cuda/backend.h"

namespace kiln {

std::span<const Backend* const> AllBackends() {
  static constexpr const Backend* kBackends[] = {
      &kCpuBackend,
      &kCudaBackend,
  };
  return kBackends;
}

}  // namespace kiln
