// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/assembler.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "halide_gen/common/build_id.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/run_tool.h"

namespace kiln {
namespace {

constexpr absl::string_view kToolkit = "the CUDA toolkit, or do without cubins";

// That of the build if it is there still, else from the search path.
std::string PtxasPath() { return access(KILN_PTXAS, X_OK) == 0 ? KILN_PTXAS : "ptxas"; }

absl::Status CheckVersion(const std::string& ptxas, const std::string& log) {
  KILN_RETURN_IF_ERROR(RunTool({ptxas, "--version"}, log, kToolkit));
  KILN_ASSIGN_OR_RETURN(const std::string printed, ReadBytes(log));
  const std::string found = absl::StrCat("ptxas ", AssemblerVersion(printed));
  if (found == kCodegenAssembler) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "\"", ptxas, "\" is ", found, ", cubins are made by ",
      *kCodegenAssembler != '\0' ? kCodegenAssembler : "none: this build found no ptxas"));
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

std::string AssemblerVersion(absl::string_view printed) {
  for (const absl::string_view word : absl::StrSplit(printed, absl::ByAnyChar(" \n,"))) {
    const std::vector<absl::string_view> parts = absl::StrSplit(word, '.');
    if (parts.size() == 3 && word[0] == 'V') return std::string(word.substr(1));
  }
  return "";
}

absl::StatusOr<Cubin> Assemble(absl::string_view ptx, Target target, const std::string& dir) {
  const std::string ptxas = PtxasPath(), log = dir + "/ptxas.log";
  const std::string in = dir + "/assembled.ptx", out = dir + "/assembled.cubin";
  KILN_RETURN_IF_ERROR(CheckVersion(ptxas, log));
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

}  // namespace kiln
