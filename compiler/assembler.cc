// SPDX-License-Identifier: Apache-2.0
#include "compiler/assembler.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/child_process.h"
#include "base/log.h"
#include "base/mutex.h"
#include "exec/support/device.h"

namespace kiln {
namespace {

constexpr char kToolkit[] = "/usr/local/cuda/bin";
constexpr int kLongestMs = 10'000;  // a cold disk included

Assembler Find() {
  const std::string path = FindTool("ptxas", "KILN_PTXAS", kToolkit);
  const char* const named = secure_getenv("KILN_PTXAS");
  if (path.empty()) {
    if (named == nullptr || named[0] == '\0' || absl::string_view(named) == "none") return {};
    return {.problem =
                absl::StrCat("KILN_PTXAS is \"", named, "\", which is no program that may be ",
                             "run; give its path from the root, or none")};
  }
  const absl::StatusOr<std::string> printed = OutputOf({path, "--version"}, kLongestMs);
  const std::string version = printed.ok() ? AssemblerVersion(*printed) : "";
  if (!version.empty()) return {.path = path, .name = absl::StrCat("ptxas ", version)};
  return {.problem =
              absl::StrCat("\"", path, "\" says no version when it is run with --version",
                           printed.ok() ? "" : ": ", printed.ok() ? "" : printed.status().message(),
                           "; name NVIDIA's ptxas in KILN_PTXAS, or none")};
}

bool Wants(const CodegenRequest& request, absl::string_view section) {
  return std::count(request.sections.begin(), request.sections.end(), section) > 0;
}

absl::Status Missing(absl::string_view tool, absl::string_view variable) {
  return absl::NotFoundError(absl::StrCat(tool, ": neither ", variable, " names it, nor is it on ",
                                          "PATH or in ", kToolkit, "; install the CUDA toolkit"));
}

}  // namespace

Assembler HostAssembler() {
  struct Found {
    Mutex mutex;
    std::optional<Assembler> assembler ABSL_GUARDED_BY(mutex);
  };
  static Found& found = *new Found;
  {
    const MutexLock lock(found.mutex);
    if (found.assembler) return *found.assembler;
  }
  Assembler assembler = Find();
  const MutexLock lock(found.mutex);
  if (!found.assembler) {
    if (!assembler.problem.empty())
      LogWarning("ptxas: ", assembler.problem, "; the driver assembles kernels as they are loaded");
    found.assembler = std::move(assembler);
  }
  return *found.assembler;
}

bool IsAssembled(DeviceKind device) { return RuntimeOf(device).machine_code != nullptr; }

std::string AssemblerOf(Target target) {
  return IsAssembled(target.device) ? HostAssembler().name : "";
}

absl::Status AddTools(CodegenRequest& request) {
  const bool disassembles = Wants(request, "sass");
  if (!disassembles && !Wants(request, "cubin") && !Wants(request, "ptxas"))
    return absl::OkStatus();
  request.assembler = HostAssembler().path;
  if (const Assembler found = HostAssembler(); !found.problem.empty())
    return absl::NotFoundError(absl::StrCat("ptxas: ", found.problem));
  if (request.assembler.empty()) return Missing("ptxas", "KILN_PTXAS");
  if (!disassembles) return absl::OkStatus();
  request.disassembler = FindTool("nvdisasm", "KILN_NVDISASM", kToolkit);
  return request.disassembler.empty() ? Missing("nvdisasm", "KILN_NVDISASM") : absl::OkStatus();
}

absl::Status CheckMadeBy(absl::string_view assembler, const CodegenAnswer& answer) {
  for (const auto& [name, bytes] : answer.sections) {
    if (name != "cubin") continue;
    const std::string version = AssemblerVersion(bytes);
    const std::string maker = absl::StrCat("ptxas ", version);
    if (version.empty() || maker == assembler) continue;  // older ones do not say
    return absl::UnavailableError(absl::StrCat("ptxas: has become \"", maker, "\", was \"",
                                               assembler, "\"; start this process anew"));
  }
  return absl::OkStatus();
}

std::string AssemblerVersion(absl::string_view printed) {
  constexpr absl::string_view kBefore = ", V";
  size_t at = printed.find(kBefore);
  for (; at != absl::string_view::npos; at = printed.find(kBefore, at + 1)) {
    size_t end = at + kBefore.size(), dots = 0;
    for (; end < printed.size() && (absl::ascii_isdigit(printed[end]) || printed[end] == '.');
         ++end)
      dots += printed[end] == '.';
    if (dots == 2) return std::string(printed.substr(at + 3, end - at - 3));
  }
  return "";
}

}  // namespace kiln
