// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/emit.h"

#include <HalideRuntime.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/cpu_features.h"
#include "base/status_macros.h"
#include "halide_gen/common/check_indices.h"
#include "halide_gen/common/expr_emitter.h"
#include "halide_gen/cpu/lowering_passes.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/tile_sizes.h"
#include "kernel/abi.h"
#include "kernel/math.h"
#include "schedule/analysis.h"
#include "schedule/cpu/loop_fission.h"

namespace kiln {
namespace {

static_assert(sizeof(BufferArg) == sizeof(halide_buffer_t) &&
              sizeof(BufferDim) == sizeof(halide_dimension_t));
static_assert(offsetof(BufferArg, host) == offsetof(halide_buffer_t, host) &&
              offsetof(BufferArg, type_code) == offsetof(halide_buffer_t, type) &&
              offsetof(BufferArg, dimensions) == offsetof(halide_buffer_t, dimensions) &&
              offsetof(BufferArg, dim) == offsetof(halide_buffer_t, dim));
static_assert(offsetof(BufferDim, extent) == offsetof(halide_dimension_t, extent) &&
              offsetof(BufferDim, stride) == offsetof(halide_dimension_t, stride));

// How a template is built, and which passes suit its loops.
struct Builder {
  const Template* of;
  std::vector<OutputNest> (*build)(const Kernel& kernel, const Schedule& schedule,
                                   const Operands& operands);
};

#define KILN_BUILDER(Name) {&k##Name, Build##Name},
constexpr Builder kBuilders[] = {KILN_CPU_TEMPLATES(KILN_BUILDER)};
#undef KILN_BUILDER

// "k" among the bodies of parallel loops.
Halide::Internal::LoweredFunc& EntryOf(Halide::Module& module) {
  std::vector<Halide::Internal::LoweredFunc>& functions = module.functions();
  return *std::find_if(functions.begin(), functions.end(),
                       [](const auto& f) { return f.name == "k"; });
}

// Outputs come in the order of the nests; puts them into that of the kernel.
void OrderOutputs(const std::vector<OutputNest>& nests, size_t inputs,
                  Halide::Internal::LoweredFunc& entry) {
  std::vector<Halide::Internal::LoweredArgument>& args = entry.args;
  std::vector<Halide::Internal::LoweredArgument> ordered = args;
  size_t next = inputs;
  for (const OutputNest& nest : nests) {
    for (const size_t output : nest.outputs) ordered[inputs + output] = args[next++];
  }
  args = std::move(ordered);
}

}  // namespace

std::vector<OutputNest> BuildNests(const Kernel& kernel, const Schedule& schedule,
                                   const Operands& operands) {
  const auto builder = std::find_if(std::begin(kBuilders), std::end(kBuilders),
                                    [&](const Builder& row) { return schedule.Is(*row.of); });
  return builder->build(kernel, schedule, operands);
}

absl::StatusOr<Halide::Target> HalideTargetOf(Target target) {
  std::string name = "x86-64-linux-sse41-avx-avx2-f16c-fma";
  if (!target.compiles()) {
    return absl::InvalidArgumentError(
        "target \"x86-64\": kernels are compiled for x86-64-v3 and up; run them in the VM");
  }
  if (IsaOf(target) == IsaLevel::kV4) name += "-avx512-avx512_skylake";
  return Halide::Target(name + "-no_runtime-no_asserts-no_bounds_query-strict_float-user_context");
}

absl::StatusOr<Halide::Module> EmitModule(const Kernel& kernel, const Schedule& schedule,
                                          const Halide::Target& target,
                                          const EmitSettings& settings) {
  KILN_RETURN_IF_ERROR(schedule.CheckFor(kernel));
  KILN_RETURN_IF_ERROR(CheckIndices(kernel));
  const std::optional<Kernel> linked =
      schedule.Is(kFissioned) ? InLinks(kernel) : std::optional<Kernel>();
  KILN_ASSIGN_OR_RETURN(const Kernel expanded, ExpandMath(linked ? *linked : kernel));
  const Operands operands = Operands::Of(expanded);
  std::vector<OutputNest> nests = BuildNests(expanded, schedule, operands);
  std::vector<Halide::Func> funcs;
  for (const OutputNest& nest : nests) funcs.push_back(nest.func);
  Halide::Pipeline pipeline(funcs);
  AddLoweringPasses({expanded, schedule, operands, nests, target.natural_vector_size<float>()},
                    settings.without, settings.trace, pipeline);
  const RuntimeTileSizes tile_sizes(funcs);
  std::vector<Halide::Argument> arguments = operands.arguments;
  for (const Halide::Argument& size : tile_sizes.arguments()) arguments.push_back(size);
  Halide::Module module =
      pipeline.compile_to_module(arguments, "k", target, Halide::LinkageType::ExternalPlusArgv);
  Halide::Internal::LoweredFunc& entry = EntryOf(module);
  tile_sizes.Define(entry);
  OrderOutputs(nests, operands.arguments.size(), entry);
  return module;
}

}  // namespace kiln
