// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/scratch.h"

#include "absl/strings/str_cat.h"
#include "halide_gen/common/primitives.h"

namespace kiln {

int32_t Scratch::Add(DType type, const std::string& elements) {
  types.push_back(type);
  bytes.push_back(absl::StrCat("(* ", SizeOf(type), " (max 1 ", elements, "))"));
  return static_cast<int32_t>(types.size()) - 1;
}

Halide::Expr Scratch::Load(DeviceNest& nest, int32_t number, const Halide::Expr& at) const {
  const std::string name = absl::StrCat("scratch", number);
  for (Halide::ImageParam& known : nest.scratch)
    if (known.name() == name) return known(at);
  Halide::ImageParam image(StorageType(types[static_cast<size_t>(number)]), 1, name);
  image.dim(0).set_min(0);
  image.set_host_alignment(kAccessBytes);
  nest.scratch.push_back(image);
  return image(at);
}

}  // namespace kiln
