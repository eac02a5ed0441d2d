// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/backend.h"

#include <Halide.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/status_macros.h"
#include "halide_gen/common/files.h"
#include "halide_gen/cpu/aligned_stores.h"
#include "halide_gen/cpu/emit.h"
#include "halide_gen/cpu/isa_scan.h"
#include "halide_gen/cpu/link.h"
#include "halide_gen/cpu/non_temporal.h"

namespace kiln {
namespace {

constexpr const char* kSections[] = {"elf", "stmt", "asm", "ir"};
constexpr const char* kFiles[] = {"elf", "stmt", "asm"};

absl::Status Compile(const CompileJob& job, CodegenAnswer& answer) {
  KILN_ASSIGN_OR_RETURN(const Halide::Target target, HalideTargetOf(job.target));
  const bool traces =
      std::count(job.request.sections.begin(), job.request.sections.end(), "ir") > 0;
  std::string trace;
  KILN_ASSIGN_OR_RETURN(
      const Halide::Module module,
      EmitModule(job.kernel, job.schedule, target,
                 {.without = job.request.without, .trace = traces ? &trace : nullptr}));

  // Machine code is made once: the text says what it uses, and is assembled.
  module.compile({{Halide::OutputFileType::assembly, job.dir + "/k.s"}});
  KILN_ASSIGN_OR_RETURN(std::string assembly, ReadBytes(job.dir + "/k.s"));
  const auto cuts = CutsAtLines(job.kernel, job.schedule).value_or(std::vector<LineExtent>());
  assembly = WithNonTemporalStores(WithPrefetches(assembly), cuts, job.kernel.inputs.size());
  KILN_RETURN_IF_ERROR(WriteBytes(job.dir + "/k.s", assembly));
  answer.isa = IsaOf(assembly);
  for (const std::string& name : job.request.sections) {
    std::string bytes;
    if (name == "elf") {
      KILN_ASSIGN_OR_RETURN(bytes, LinkKernel(job.dir));
    } else if (name == "asm") {
      bytes = assembly;
    } else if (name == "ir") {
      bytes = trace;
    } else {
      std::ostringstream text;
      text << module;
      bytes = std::move(text).str();
    }
    answer.sections.emplace_back(name, std::move(bytes));
  }
  return absl::OkStatus();
}

void WarmUp() {
  const Halide::Var x("warm");
  Halide::Func func("warm_up");
  func(x) = Halide::cast<float>(x);
  func.vectorize(x, 8);  // correctness
  const auto target = HalideTargetOf(LowestTarget(DeviceKind::kCpu));
  if (target.ok()) func.compile_to_module({}, "warm_up", *target).compile_to_buffer();
}

}  // namespace

const Backend kCpuBackend = {
    .device = DeviceKind::kCpu,
    .sections = kSections,
    .files = kFiles,
    .compile = Compile,
    .warm_up = WarmUp,
};

}  // namespace kiln
