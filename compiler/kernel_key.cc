// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_key.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/assembler.h"
#include "exec/support/device.h"
#include "halide_gen/common/build_id.h"
#include "kernel/abi.h"

namespace kiln {
namespace {

constexpr KeyOption kOwnOptions[] = {
    {"graph_opt_level", false,
     "decides which Kernels and schedules there are; both are in the key"},
    {"jit_level", false, "decides which Kernels and schedules there are; both are in the key"},
    {"threads", false, "no kernel depends on the number of threads"},
    {"math", true, "field math"},
    {"compile_mode", false, "decides when, not what"},
    {"cache", false, "decides where"},
    {"build_jobs", false, "decides how fast, not what"},
    {"codegen", false, "a worker of another build is refused; the build is in the key"},
    {"validator", false, "decides whether a kernel is kept, not what it is"},
    {"target", true, "field target"},
    {"kernel_timeout_ms", false, "a kernel is complete or not there"},
    {"kernel_cpu_ms", false, "a kernel is complete or not there"},
    {"max_weight_bytes", false, "decides whether a model is read, not what is made of it"},
    {"external_data_links", false, "decides whether a model is read, not what is made of it"},
    {"disabled_passes", false,
     "decides which Kernels and schedules there are; both are in the key"},
    {"device_library", false, "decides which Kernels there are"},
    {"updatable", false, "decides which Kernels there are"},
    {"const_shapes", false, "decides which Kernels there are"},
    {"fusion_rules", false, "decides which Kernels and schedules there are; both are in the key"},
    {"no_fuse", false, "decides which Kernels and schedules there are; both are in the key"},
    {"custom_ops", false, "become ordinary ops, or run outside of kernels"},
    {"forced_fusion", false, "decides which Kernels and schedules there are; both are in the key"},
    {"machine", false, "decides which Kernels and schedules there are; both are in the key"},
    {"choose", false, "the schedule is in the key"},
    {"schedule_choice", false, "the schedule is in the key"},
    {"workspace_limit", false, "the schedule is in the key"},
    {"tune_at", false, "the schedule is in the key"},
    {"tuner", false, "the schedule is in the key"},
    {"dump", false, "only looks"},
};
constexpr auto kOptions = WithKeylessOptions(kOwnOptions);

}  // namespace

std::span<const KeyOption> KeyOptions() { return kOptions; }

KernelIdentity IdentityOf(std::string text, std::string schedule, Target target, MathMode math) {
  return {std::move(text), std::move(schedule), target, math, AssemblerOf(target)};
}

const char* SectionOf(const KernelIdentity& identity) {
  return RuntimeOf(identity.target.device).section;
}

std::vector<std::string> SectionsOf(const KernelIdentity& identity) {
  const DeviceRuntime& runtime = RuntimeOf(identity.target.device);
  std::vector<std::string> sections = {runtime.section};
  if (runtime.recipe != nullptr) sections.emplace_back(runtime.recipe);
  if (identity.assembler.empty()) return sections;
  sections.emplace_back(runtime.machine_code);
  if (runtime.figures != nullptr) sections.emplace_back(runtime.figures);
  return sections;
}

Preimage KernelPreimage(const KernelIdentity& identity) {
  Preimage preimage;
  preimage.Add("schema", "3")
      .Add("artefact", absl::StrCat(Name(identity.target.device), " kernel ", SectionOf(identity)))
      .Add("abi", absl::StrCat(kKernelAbi))
      .Add("kernel", identity.text)
      .Add("schedule", identity.schedule)
      .Add("math", identity.math == MathMode::kStrict ? "strict" : "fast")
      .Add("target", identity.target.name())
      .Add("codegen", CodegenBuildId(identity.target.device))
      .Add("compiler", kCodegenCompiler);
  if (IsAssembled(identity.target.device)) preimage.Add("assembler", identity.assembler);
  return preimage;
}

}  // namespace kiln
