// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/emit.h"

#include <Halide.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "halide_gen/common/check_indices.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/cuda/exact_arithmetic.h"
#include "halide_gen/cuda/nests.h"
#include "halide_gen/cuda/recipe.h"
#include "kernel/math.h"

namespace kiln {
namespace {

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

// Whose argument a buffer of the nest is, by its name in the lowered code.
std::map<std::string, LaunchOperand> OperandsOf(const DeviceNest& nest) {
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
  return operands;
}

// The body of the module's text: its target stands once, before the first.
std::string WithoutHeader(absl::string_view ptx, bool first) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(ptx, '\n')) {
    const absl::string_view code = line.substr(0, line.find("//"));
    const bool header = absl::StartsWith(code, ".version") || absl::StartsWith(code, ".target") ||
                        absl::StartsWith(code, ".address_size");
    if (code.find_first_not_of(" \t") == absl::string_view::npos || (header && !first)) continue;
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(code), "\n");
  }
  return text;
}

absl::Status Add(DeviceNest& nest, const std::string& dir, DeviceCode& code) {
  Halide::Pipeline pipeline(nest.func);
  pipeline.add_custom_lowering_pass(new OpaqueLoads);
  pipeline.add_custom_lowering_pass(new ScalarsInThreads);
  pipeline.add_custom_lowering_pass(new ExactArithmetic);
  Halide::Module module = pipeline.compile_to_module(
      nest.operands.arguments, "k", Halide::Target(kTarget), Halide::LinkageType::ExternalPlusArgv);
  const auto& functions = module.functions();
  const auto host =
      std::find_if(functions.begin(), functions.end(), [](const auto& f) { return f.name == "k"; });
  KILN_ASSIGN_OR_RETURN(DeviceLaunch launch, LaunchOf(*host, OperandsOf(nest), nest.strides));
  if (!nest.when.empty()) {
    KILN_ASSIGN_OR_RETURN(launch.when.emplace_back(), LaunchExpr::Parse(nest.when));
  }
  const std::string path = dir + "/k.ptx";
  module.compile({{Halide::OutputFileType::device_code, path}});
  KILN_ASSIGN_OR_RETURN(const std::string ptx, ReadBytes(path));
  // Names that Halide counts up become names of this text alone.
  const std::string entry = absl::StrCat("k", code.recipe.launches.size());
  code.ptx += absl::StrReplaceAll(WithoutHeader(ptx, code.ptx.empty()), {{launch.entry, entry}});
  launch.entry = entry;
  code.recipe.launches.push_back(std::move(launch));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceCode> EmitDeviceCode(const Kernel& kernel, const Schedule& schedule,
                                          const std::string& dir) {
  KILN_RETURN_IF_ERROR(schedule.CheckFor(kernel));
  KILN_RETURN_IF_ERROR(CheckIndices(kernel));
  KILN_ASSIGN_OR_RETURN(const Kernel expanded, ExpandMath(kernel));
  const auto* const builder =
      std::find_if(std::begin(kDeviceBuilders), std::end(kDeviceBuilders),
                   [&](const DeviceBuilder& row) { return schedule.Is(*row.of); });
  DeviceCode code;
  DeviceNests made = builder->build(expanded, schedule);
  for (DeviceNest& nest : made.nests) KILN_RETURN_IF_ERROR(Add(nest, dir, code));
  for (const std::string& bytes : made.scratch_bytes) {
    KILN_ASSIGN_OR_RETURN(code.recipe.scratch_bytes.emplace_back(), LaunchExpr::Parse(bytes));
  }
  return code;
}

}  // namespace kiln
