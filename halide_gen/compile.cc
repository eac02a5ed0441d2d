// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/compile.h"

#include <Halide.h>

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "halide_gen/aligned_stores.h"
#include "halide_gen/emit.h"
#include "halide_gen/files.h"
#include "halide_gen/isa_scan.h"
#include "halide_gen/link.h"
#include "halide_gen/streams.h"
#include "kernel/text.h"

namespace kiln {
namespace {

// Halide prints warnings to stderr and, on errors, must not return.
class Reporter : public Halide::CompileTimeErrorReporter {
 public:
  void warning(const char*) override {}
  void error(const char* message) override { throw Halide::CompileError(message); }
};

absl::Status CheckSections(const std::vector<std::string>& sections) {
  for (const std::string& name : sections) {
    if (name != "elf" && name != "stmt" && name != "asm") {
      return absl::InvalidArgumentError(
          absl::StrCat("section \"", name, "\": there is none; ask for elf, stmt or asm"));
    }
  }
  return absl::OkStatus();
}

// Fills the sections and isa of `answer`.
absl::Status CompileInto(const CodegenRequest& request, const std::string& dir,
                         CodegenAnswer& answer) {
  KILN_RETURN_IF_ERROR(CheckSections(request.sections));
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(request.kernel));
  KILN_ASSIGN_OR_RETURN(const Params params, Params::Parse(request.params));
  const std::optional<IsaLevel> isa = ParseIsaLevel(request.target);
  if (!isa) {
    return absl::InvalidArgumentError(
        absl::StrCat("target \"", request.target, "\": unknown; name x86-64-v3 or x86-64-v4"));
  }
  KILN_ASSIGN_OR_RETURN(const Halide::Target target, TargetFor(*isa));
  KILN_ASSIGN_OR_RETURN(const Halide::Module module, EmitModule(kernel, params, target));

  // Machine code is made once: the text says what it uses, and is assembled.
  module.compile({{Halide::OutputFileType::assembly, dir + "/k.s"}});
  KILN_ASSIGN_OR_RETURN(std::string assembly, ReadBytes(dir + "/k.s"));
  const auto cuts = CutsAtLines(kernel, params).value_or(std::vector<LineExtent>());
  assembly = WithStreams(WithPrefetches(assembly), cuts, kernel.inputs.size());
  KILN_RETURN_IF_ERROR(WriteBytes(dir + "/k.s", assembly));
  answer.isa = IsaOf(assembly);
  for (const std::string& name : request.sections) {
    std::string bytes;
    if (name == "elf") {
      KILN_ASSIGN_OR_RETURN(bytes, LinkKernel(dir));
    } else if (name == "asm") {
      bytes = assembly;
    } else {
      std::ostringstream text;
      text << module;
      bytes = std::move(text).str();
    }
    answer.sections.emplace_back(name, std::move(bytes));
  }
  return absl::OkStatus();
}

}  // namespace

CodegenAnswer Failure(CodegenAnswer::Outcome outcome, absl::string_view error, bool of_schedule) {
  CodegenAnswer answer;
  answer.outcome = outcome;
  answer.error = std::string(error);
  answer.of_schedule = of_schedule;
  return answer;
}

CodegenAnswer Compile(const CodegenRequest& request, const std::string& dir) {
  using Outcome = CodegenAnswer::Outcome;
  static Reporter reporter;
  Halide::set_custom_compile_time_error_reporter(&reporter);
  try {
    CodegenAnswer answer;
    const absl::Status status = CompileInto(request, dir, answer);
    if (status.ok()) return answer;
    const bool passing = status.code() == absl::StatusCode::kUnavailable;
    return Failure(passing ? Outcome::kTransient : Outcome::kDeterministic, status.message());
  } catch (const Halide::Error& error) {  // no std::exception
    return Failure(Outcome::kDeterministic, absl::StrCat("halide: ", error.what()),
                   /*of_schedule=*/true);
  } catch (const std::bad_alloc&) {
    return Failure(Outcome::kTransient, "codegen: out of memory");
  } catch (const std::exception& error) {
    return Failure(Outcome::kDeterministic, absl::StrCat("codegen: ", error.what()));
  }
}

void WarmUp() {
  static Reporter reporter;
  Halide::set_custom_compile_time_error_reporter(&reporter);
  const Halide::Var x("warm");
  Halide::Func func("warm_up");
  func(x) = Halide::cast<float>(x);
  func.vectorize(x, 8);
  const auto target = TargetFor(IsaLevel::kV3);
  if (target.ok()) func.compile_to_module({}, "warm_up", *target).compile_to_buffer();
}

}  // namespace kiln
