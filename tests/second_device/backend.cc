// SPDX-License-Identifier: Apache-2.0
// How code is made for the second device, and the table with it.
#include "halide_gen/common/backend.h"

#include <Halide.h>

#include "base/status_macros.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/cpu/backend.h"
#include "halide_gen/cpu/emit.h"
#include "halide_gen/cpu/isa_scan.h"
#include "halide_gen/cpu/link.h"
#include "halide_gen/cpu/nests.h"
#include "kernel/math.h"
#include "tests/second_device/device.h"

namespace kiln {
namespace {

constexpr const char* kSections[] = {"elf"};

absl::Status Compile(const CompileJob& job, CodegenAnswer& answer) {
  KILN_RETURN_IF_ERROR(job.schedule.CheckFor(job.kernel));
  KILN_ASSIGN_OR_RETURN(const Halide::Target target,
                        HalideTargetOf(LowestTarget(DeviceKind::kCpu)));
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ExpandMath(job.kernel));
  const Operands operands = Operands::Of(kernel);
  std::vector<Halide::Var> dims;
  for (int d = 0; d < kernel.num_iterated(); ++d) dims.emplace_back("dim" + std::to_string(d));
  std::vector<Halide::Func> funcs;
  for (size_t k = 0; k < kernel.outputs.size(); ++k)
    funcs.push_back(DefineOverDims(kernel, operands, {k}, dims));
  Halide::Pipeline pipeline(funcs);
  pipeline.add_custom_lowering_pass(new OpaqueLoads);
  pipeline.compile_to_module(operands.arguments, "k", target, Halide::LinkageType::ExternalPlusArgv)
      .compile({{Halide::OutputFileType::assembly, job.dir + "/k.s"}});
  KILN_ASSIGN_OR_RETURN(const std::string assembly, ReadBytes(job.dir + "/k.s"));
  answer.isa = IsaOf(assembly);
  KILN_ASSIGN_OR_RETURN(std::string elf, LinkKernel(job.dir));
  answer.sections.emplace_back("elf", std::move(elf));
  return absl::OkStatus();
}

}  // namespace

const Backend kScalarBackend = {.device = kScalarDevice,
                                .sections = kSections,
                                .files = kSections,
                                .compile = Compile,
                                .warm_up = [] {}};

std::span<const Backend* const> AllBackends() {
  static constexpr const Backend* kBackends[] = {&kCpuBackend, &kScalarBackend};
  return kBackends;
}

}  // namespace kiln
