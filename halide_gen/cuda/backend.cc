// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/backend.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "halide_gen/cuda/assembler.h"
#include "halide_gen/cuda/emit.h"

namespace kiln {
namespace {

constexpr const char* kDeviceSections[] = {"ptx", "launch", "cubin", "ptxas", "sass"};
constexpr const char* kDeviceFiles[] = {"ptx", "launch"};

// Where the text is asked for too, an assembler that refuses it, such as an older one that does not
// know the level, costs no more than the cubin: the driver's own may do better. What it says stands
// in the place of figures.
absl::StatusOr<Cubin> CubinOf(const DeviceCode& code, const CompileJob& job) {
  absl::StatusOr<Cubin> cubin = Assemble(code.ptx, job.target, job.request.assembler, job.dir);
  const auto& sections = job.request.sections;
  if (!absl::IsInternal(cubin.status()) || std::count(sections.begin(), sections.end(), "ptx") == 0)
    return cubin;
  const std::string said =  // without names that differ from one time to the next
      absl::StrReplaceAll(cubin.status().message(),
                          {{job.request.assembler, "ptxas"}, {absl::StrCat(job.dir, "/"), ""}});
  return Cubin{"", absl::StrCat(said, "\n")};
}

absl::Status CompileForDevice(const CompileJob& job, CodegenAnswer& answer) {
  KILN_ASSIGN_OR_RETURN(DeviceCode code, EmitDeviceCode(job.kernel, job.schedule));
  answer.isa = "sm_80";  // the target of the text
  std::optional<Cubin> cubin;
  for (const std::string& name : job.request.sections) {
    std::string bytes;
    if (name == "ptx" || name == "launch") {
      bytes = name == "ptx" ? code.ptx : code.recipe.ToString();
    } else if (!cubin) {
      KILN_ASSIGN_OR_RETURN(cubin, CubinOf(code, job));
    }
    if (name == "cubin") bytes = cubin->bytes;
    if (name == "ptxas") bytes = cubin->figures;
    if (name == "sass") {
      KILN_ASSIGN_OR_RETURN(bytes, Disassemble(cubin->bytes, job.request.disassembler, job.dir));
    }
    if (!bytes.empty()) answer.sections.emplace_back(name, std::move(bytes));
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
