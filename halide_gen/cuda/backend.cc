// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/backend.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "halide_gen/cuda/assembler.h"
#include "halide_gen/cuda/emit.h"

namespace kiln {
namespace {

constexpr const char* kDeviceSections[] = {"ptx", "launch", "cubin", "ptxas"};
constexpr const char* kDeviceFiles[] = {"ptx", "launch"};

absl::Status CompileForDevice(const CompileJob& job, CodegenAnswer& answer) {
  KILN_ASSIGN_OR_RETURN(const DeviceCode code, EmitDeviceCode(job.kernel, job.schedule));
  answer.isa = "sm_80";  // the target of the text
  Cubin cubin;
  for (const absl::string_view name : job.sections) {
    const bool assembled = name == "cubin" || name == "ptxas";
    if (assembled && cubin.bytes.empty()) {
      KILN_ASSIGN_OR_RETURN(cubin, Assemble(code.ptx, job.target, job.dir));
    }
    answer.sections.emplace_back(name, name == "ptx"      ? code.ptx
                                       : name == "launch" ? code.recipe.ToString()
                                       : name == "cubin"  ? cubin.bytes
                                                          : cubin.figures);
  }
  return absl::OkStatus();
}

}  // namespace

const Backend kCudaBackend = {
    .device = DeviceKind::kCuda,
    .sections = kDeviceSections,
    .files = kDeviceFiles,
    .compile = CompileForDevice,
    .warm_up = [] {},
};

}  // namespace kiln
