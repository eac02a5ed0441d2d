// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/backend.h"

#include <string>

#include "base/status_macros.h"
#include "halide_gen/cuda/assembler.h"
#include "halide_gen/cuda/emit.h"

namespace kiln {
namespace {

constexpr const char* kDeviceSections[] = {"ptx", "launch", "cubin", "ptxas", "sass"};
constexpr const char* kDeviceFiles[] = {"ptx", "launch"};

absl::Status CompileForDevice(const CompileJob& job, CodegenAnswer& answer) {
  KILN_ASSIGN_OR_RETURN(DeviceCode code, EmitDeviceCode(job.kernel, job.schedule));
  answer.isa = "sm_80";  // the target of the text
  Cubin cubin;
  for (const std::string& name : job.request.sections) {
    std::string& bytes = answer.sections.emplace_back(name, "").second;
    if (name == "ptx" || name == "launch") {
      bytes = name == "ptx" ? code.ptx : code.recipe.ToString();
      continue;
    }
    if (cubin.bytes.empty()) {
      KILN_ASSIGN_OR_RETURN(cubin, Assemble(code.ptx, job.target, job.request.assembler, job.dir));
    }
    bytes = name == "cubin" ? cubin.bytes : cubin.figures;
    if (name != "sass") continue;
    KILN_ASSIGN_OR_RETURN(bytes, Disassemble(cubin.bytes, job.request.disassembler, job.dir));
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
