// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/assembler.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/run_tool.h"

namespace kiln {
namespace {

constexpr absl::string_view kToolkit = "the CUDA toolkit";

absl::Status CheckNamed(absl::string_view tool, const std::string& path) {
  if (!path.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(tool, ": the request does not say where it is; install ", kToolkit));
}

// Without the times that it took.
std::string FiguresOf(absl::string_view said) {
  std::string figures;
  for (absl::string_view line : absl::StrSplit(said, '\n')) {
    if (absl::StrContains(line, "Compile time")) continue;
    absl::ConsumePrefix(&line, "ptxas info");
    line = absl::StripLeadingAsciiWhitespace(line);
    absl::ConsumePrefix(&line, ":");
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) absl::StrAppend(&figures, line, "\n");
  }
  return figures;
}

}  // namespace

absl::StatusOr<Cubin> Assemble(absl::string_view ptx, Target target, const std::string& ptxas,
                               const std::string& dir) {
  KILN_RETURN_IF_ERROR(CheckNamed("ptxas", ptxas));
  const std::string log = dir + "/ptxas.log";
  const std::string in = dir + "/assembled.ptx", out = dir + "/assembled.cubin";
  KILN_RETURN_IF_ERROR(WriteBytes(in, ptx));
  absl::string_view level = target.name();
  absl::ConsumePrefix(&level, "cuda-sm");
  KILN_RETURN_IF_ERROR(
      RunTool({ptxas, "-v", absl::StrCat("-arch=sm_", level), "-o", out, in}, log, kToolkit));
  Cubin cubin;
  KILN_ASSIGN_OR_RETURN(cubin.bytes, ReadBytes(out));
  KILN_ASSIGN_OR_RETURN(const std::string said, ReadBytes(log));
  cubin.figures = FiguresOf(said);
  return cubin;
}

absl::StatusOr<std::string> Disassemble(absl::string_view cubin, const std::string& nvdisasm,
                                        const std::string& dir) {
  KILN_RETURN_IF_ERROR(CheckNamed("nvdisasm", nvdisasm));
  const std::string in = dir + "/disassembled.cubin", log = dir + "/nvdisasm.log";
  KILN_RETURN_IF_ERROR(WriteBytes(in, cubin));
  KILN_RETURN_IF_ERROR(RunTool({nvdisasm, "--print-code", in}, log, kToolkit));
  return ReadBytes(log);
}

}  // namespace kiln
