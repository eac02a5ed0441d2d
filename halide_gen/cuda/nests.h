// SPDX-License-Identifier: Apache-2.0
// What the builders of CUDA's templates make: (Kernel with expanded functions, Schedule) -> nests,
// each with one launch. Private: has Halide.h.
//
// A nest has operands of its own, since what may be assumed of them (an alignment, say) holds under
// its condition only. Nests run in order; what one leaves in scratch memory the next may read.
#ifndef KILN_HALIDE_GEN_CUDA_NESTS_H_
#define KILN_HALIDE_GEN_CUDA_NESTS_H_

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

#include "halide_gen/common/expr_emitter.h"
#include "kernel/kernel.h"
#include "kernel/launch_recipe.h"
#include "schedule/cuda/templates.h"
#include "schedule/schedule.h"

namespace kiln {

inline constexpr int kAccessBytes = 16;  // correctness: the widest access of a thread

struct DeviceNest {
  Operands operands;
  Halide::Func func;
  std::vector<LaunchOperand> results;       // what its values are, in order
  std::string when;                         // as in a recipe; empty: always
  std::vector<Halide::ImageParam> scratch;  // that nests before it have left
  // What strides of `func`'s buffers are, by the names that lowered code has for them.
  std::map<std::string, Halide::Expr> strides;
};

struct DeviceNests {
  std::vector<DeviceNest> nests;
  std::vector<std::string> scratch_bytes = {};  // as in a recipe
};

// The operands of a nest. With vectors, rows are whole ones, and what lies along them begins at an
// access: true where WhenAligned holds.
Operands OperandsFor(const Kernel& kernel, int vector = 1);
// The outputs `group`, as results of a nest.
std::vector<LaunchOperand> ResultsOf(const std::vector<size_t>& group);
// Says what the stride of an axis of a buffer of the nest's func is: lowered code reads it.
void TellStride(DeviceNest& nest, size_t buffer, int axis, const Halide::Expr& stride);

// The stages that these outputs read, themselves or through others; by stage.
std::vector<bool> StagesReadBy(const Kernel& kernel, const std::vector<size_t>& group);

// Whether elements along the innermost dim lie side by side in `input`.
bool LiesAlong(const Kernel& kernel, const KernelInput& input);
// The condition that rows are whole vectors of so many elements, and that operands which lie along
// them begin at an access.
std::string WhenAligned(const Kernel& kernel, int vector);

// Keeps `func`, of so many elements, in shared memory, where it begins and ends at the widest
// element there is: Halide 21 allots the sum of the bytes, and begins each Func at a multiple of
// the widest. `dim` may have more elements for it.
void StoreInShared(Halide::Func& func, const Halide::Var& dim, int64_t elements);

// Says that the buffers of the nest's func are dense and have these extents (innermost first), of
// which the first is `vector` elements that lie side by side, aligned to an access if there are
// several.
void SetDenseVectors(DeviceNest& nest, const std::vector<Halide::Expr>& extents, int vector);

#define KILN_DECLARE_DEVICE_BUILDER(Name) \
  DeviceNests Build##Name(const Kernel& kernel, const Schedule& schedule);
KILN_CUDA_TEMPLATES(KILN_DECLARE_DEVICE_BUILDER)
#undef KILN_DECLARE_DEVICE_BUILDER

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_NESTS_H_
