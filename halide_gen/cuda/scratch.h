// SPDX-License-Identifier: Apache-2.0
// Memory for what one launch leaves to later ones. Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CUDA_SCRATCH_H_
#define KILN_HALIDE_GEN_CUDA_SCRATCH_H_

#include <Halide.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "halide_gen/cuda/nests.h"

namespace kiln {

struct Scratch {
  std::vector<DType> types;
  std::vector<std::string> bytes;  // as in a recipe

  // The number of a new one for `elements`, an expression of a recipe.
  int32_t Add(DType type, const std::string& elements);
  // The element `at`, in a nest after that which makes it.
  Halide::Expr Load(DeviceNest& nest, int32_t number, const Halide::Expr& at) const;
};

inline LaunchOperand ScratchOperand(int32_t number) {
  return {LaunchOperand::Kind::kScratch, number};
}

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_SCRATCH_H_
