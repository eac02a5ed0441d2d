// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/emit.h"

#include <HalideRuntime.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/cpu_features.h"
#include "base/status_macros.h"
#include "halide_gen/common/expr_emitter.h"
#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/cpu/aligned_stores.h"
#include "halide_gen/cpu/factors.h"
#include "halide_gen/cpu/grouped_loads.h"
#include "halide_gen/cpu/mask_shuffles.h"
#include "halide_gen/cpu/narrow_stores.h"
#include "halide_gen/cpu/narrow_tails.h"
#include "halide_gen/cpu/nests.h"
#include "halide_gen/cpu/prefetch.h"
#include "halide_gen/cpu/rare_selects.h"
#include "halide_gen/cpu/square_turns.h"
#include "halide_gen/cpu/steady_values.h"
#include "halide_gen/cpu/strided_loads.h"
#include "halide_gen/cpu/uniform_loads.h"
#include "halide_gen/cpu/uniform_selects.h"
#include "halide_gen/cpu/whole_loads.h"
#include "halide_gen/cpu/whole_steps.h"
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

bool Fits(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

absl::Status CheckIndices(const Kernel& kernel) {
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) {
      for (const IndexExpr& index : node.index) {
        bool fits = Fits(index.offset) && Fits(index.div) && Fits(index.mod);
        for (const IndexExpr::Term& term : index.terms) fits = fits && Fits(term.coef);
        if (!fits) {
          return absl::UnimplementedError(
              "kernel: an index has a coefficient beyond 32 bits; run it in the VM");
        }
      }
    }
  }
  return absl::OkStatus();
}

// How a template is built, and which passes suit its loops.
struct Builder {
  const Template* of;
  std::vector<OutputNest> (*build)(const Kernel& kernel, const Schedule& schedule,
                                   const Operands& operands);
};

#define KILN_BUILDER(Name) {&k##Name, Build##Name},
constexpr Builder kBuilders[] = {KILN_CPU_TEMPLATES(KILN_BUILDER)};
#undef KILN_BUILDER

// Whether reductions are over other dims than the innermost only.
bool KeepsInnermost(const Kernel& kernel) {
  return std::none_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
    return stage.kind == Stage::Kind::kReduce && stage.over.back() == kernel.innermost();
  });
}

// Inputs with an element for each point of the iteration space; others stay in the cache, and so
// do rows that are reduced along the other dims right after they have been read ("cross"). Down a
// column the processor follows the lines by itself, and does not ask for those behind its end.
std::set<std::string> StreamedInputs(const Kernel& kernel, const Schedule& schedule,
                                     const Operands& operands) {
  std::set<std::string> names;
  if (schedule.Is(kRowAndColumn) || (schedule.Is(kOuterReduction) && KeepsInnermost(kernel)))
    return names;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (kernel.inputs[i].dims.size() >= static_cast<size_t>(kernel.num_iterated())) {
      names.insert(operands.inputs[i].name());
    }
  }
  return names;
}

std::set<std::string> OutputBuffers(const std::vector<OutputNest>& nests) {
  std::set<std::string> names;
  for (const OutputNest& nest : nests) {
    for (const Halide::OutputImageParam& buffer : nest.func.output_buffers())
      names.insert(buffer.name());
  }
  return names;
}

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
                                          const Halide::Target& target) {
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
  pipeline.add_custom_lowering_pass(new OpaqueLoads);
  pipeline.add_custom_lowering_pass(
      new Prefetching(StreamedInputs(expanded, schedule, operands), OutputBuffers(nests)));
  pipeline.add_custom_lowering_pass(new UniformLoads);
  pipeline.add_custom_lowering_pass(new UniformSelects);
  pipeline.add_custom_lowering_pass(new SteadyValues);
  pipeline.add_custom_lowering_pass(new SquareTurns);
  pipeline.add_custom_lowering_pass(new WholeLoads);
  // Nests of rows and columns lack registers as it is: branches between loads cost them 3 %.
  if (!schedule.Is(kRowAndColumn)) pipeline.add_custom_lowering_pass(new WholeSteps);
  pipeline.add_custom_lowering_pass(new StridedLoads);
  if (schedule.Is(kPackedBlocks)) {
    pipeline.add_custom_lowering_pass(new GroupedLoads);
    pipeline.add_custom_lowering_pass(new NarrowStores);
  }
  pipeline.add_custom_lowering_pass(new NarrowTails(target.natural_vector_size<float>()));
  pipeline.add_custom_lowering_pass(new RareSelects);
  pipeline.add_custom_lowering_pass(new AlignedStores(expanded, schedule, operands, nests));
  pipeline.add_custom_lowering_pass(new MaskShuffles);
  const Factors factors(funcs);
  std::vector<Halide::Argument> arguments = operands.arguments;
  for (const Halide::Argument& factor : factors.arguments()) arguments.push_back(factor);
  Halide::Module module =
      pipeline.compile_to_module(arguments, "k", target, Halide::LinkageType::ExternalPlusArgv);
  Halide::Internal::LoweredFunc& entry = EntryOf(module);
  factors.Define(entry);
  OrderOutputs(nests, operands.arguments.size(), entry);
  return module;
}

}  // namespace kiln
