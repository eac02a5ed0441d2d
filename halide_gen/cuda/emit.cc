// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/emit.h"

#include <Halide.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "halide_gen/common/check_indices.h"
#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/cuda/device_library.h"
#include "halide_gen/cuda/exact_arithmetic.h"
#include "halide_gen/cuda/nests.h"
#include "halide_gen/cuda/recipe.h"
#include "halide_gen/cuda/wide_accesses.h"
#include "kernel/math.h"

namespace kiln {
namespace {

using Halide::Internal::Stmt;

constexpr const char* kTarget =
    "x86-64-linux-cuda-cuda_capability_80-no_runtime-no_asserts-no_bounds_query-strict_float-"
    "user_context";

constexpr absl::string_view kScratch = "scratch";

struct DeviceBuilder {
  const Template* of;
  DeviceNests (*build)(const Kernel& kernel, const Schedule& schedule);
};

#define KILN_BUILDER(Name) {&k##Name, Build##Name},
constexpr DeviceBuilder kDeviceBuilders[] = {KILN_CUDA_TEMPLATES(KILN_BUILDER)};
#undef KILN_BUILDER

NestNames NamesOf(const DeviceNest& nest) {
  std::map<std::string, LaunchOperand> operands;
  for (size_t k = 0; k < nest.operands.inputs.size(); ++k)
    operands[nest.operands.inputs[k].name()] = {LaunchOperand::Kind::kInput,
                                                static_cast<int32_t>(k)};
  for (const Halide::ImageParam& scratch : nest.scratch)
    operands[scratch.name()] = {LaunchOperand::Kind::kScratch,
                                std::stoi(scratch.name().substr(kScratch.size()))};
  const std::string& name = nest.func.name();
  for (size_t k = 0; k < nest.results.size(); ++k)
    operands[nest.results.size() == 1 ? name : absl::StrCat(name, ".", k)] = nest.results[k];
  return {std::move(operands), nest.strides};
}

// The last lowering pass: ends lowering with the statement, which is thrown. Halide would go on to
// make device code of it alone, and reads its library of device functions first.
class TakeStmt : public Halide::Internal::IRMutator {
 public:
  struct Taken {
    Stmt stmt;
  };
  using IRMutator::mutate;
  Stmt mutate(const Stmt& stmt) override { throw Taken{stmt}; }
};

// The nest's host code; loops over blocks and threads in it are to become device code.
Stmt Lowered(const DeviceNest& nest, const Halide::Target& target) {
  OpaqueLoads opaque;
  ScalarsInThreads scalars;
  ExactArithmetic exact;
  WideAccesses wide;
  TakeStmt take;
  try {
    return Halide::Internal::lower_main_stmt({nest.func.function()}, "k", target, {}, false,
                                             {&opaque, &scalars, &exact, &wide, &take});
  } catch (const TakeStmt::Taken& taken) {
    return taken.stmt;
  }
}

// The text without comments and empty lines.
std::string Code(absl::string_view ptx) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(ptx, '\n')) {
    const absl::string_view code =
        absl::StripTrailingAsciiWhitespace(line.substr(0, line.find("//")));
    if (!code.empty()) absl::StrAppend(&text, code, "\n");
  }
  return text;
}

// Threads that have enough registers on a multiprocessor whatever an assembler gives them, which is
// 255 at most.
constexpr int64_t kThreadsWithAllRegisters = 256;  // correctness: more may not start

// The text with the threads of a block of each function that always has as many, where that bounds
// their registers. An assembler that knows of smaller blocks spills to have more of them at once,
// and one that is told of the most threads there may be spills for those.
std::string WithBlocks(std::string ptx, const LaunchRecipe& recipe) {
  for (const DeviceLaunch& launch : recipe.launches) {
    const std::optional<int64_t> x = launch.block[0].Constant(), y = launch.block[1].Constant(),
                                 z = launch.block[2].Constant();
    if (!x || !y || !z || *x * *y * *z <= kThreadsWithAllRegisters) continue;
    const size_t params = ptx.find(absl::StrCat(".entry ", launch.entry, "("));
    const size_t end = params != std::string::npos ? ptx.find(')', params) : params;
    if (end != std::string::npos)
      ptx.insert(end + 1, absl::StrCat("\n.maxntid ", *x, ", ", *y, ", ", *z));
  }
  return ptx;
}

}  // namespace

absl::StatusOr<DeviceCode> EmitDeviceCode(const Kernel& kernel, const Schedule& schedule) {
  KILN_RETURN_IF_ERROR(schedule.CheckFor(kernel));
  KILN_RETURN_IF_ERROR(CheckIndices(kernel));
  KILN_ASSIGN_OR_RETURN(const Kernel expanded, ExpandMath(kernel));
  const auto* const builder =
      std::find_if(std::begin(kDeviceBuilders), std::end(kDeviceBuilders),
                   [&](const DeviceBuilder& row) { return schedule.Is(*row.of); });
  const DeviceNests made = builder->build(expanded, schedule);
  // One module for all nests: what LLVM does for each, whatever is in it, is done once.
  const Halide::Target target(kTarget);
  std::vector<Stmt> lowered;
  std::vector<NestNames> names;
  for (const DeviceNest& nest : made.nests) {
    lowered.push_back(OfNest(static_cast<int>(names.size()), Lowered(nest, target)));
    names.push_back(NamesOf(nest));
  }
  const Stmt host =
      Halide::Internal::inject_gpu_offload(Halide::Internal::Block::make(lowered), target);
  KILN_ASSIGN_OR_RETURN(Launches launches, LaunchesOf(host, names));
  DeviceCode code;
  // Names that Halide counts up become names of this text alone.
  std::vector<std::pair<std::string, std::string>> renamed;
  for (size_t k = 0; k < made.nests.size(); ++k) {
    DeviceLaunch& launch = launches.of_nests[k];
    renamed.emplace_back(launch.entry, absl::StrCat("k", k));
    launch.entry = renamed.back().second;
    if (!made.nests[k].when.empty()) {
      KILN_ASSIGN_OR_RETURN(launch.when.emplace_back(), LaunchExpr::Parse(made.nests[k].when));
    }
    code.recipe.launches.push_back(std::move(launch));
  }
  code.ptx = WithBlocks(absl::StrReplaceAll(Code(launches.ptx), renamed), code.recipe);
  KILN_RETURN_IF_ERROR(CheckCallsNoLibrary(code.ptx));
  for (const std::string& bytes : made.scratch_bytes) {
    KILN_ASSIGN_OR_RETURN(code.recipe.scratch_bytes.emplace_back(), LaunchExpr::Parse(bytes));
  }
  return code;
}

}  // namespace kiln
